<?php

declare(strict_types=1);

namespace Pillion\Exception;

/** The call was cancelled by its {@see \Pillion\CancellationToken} or by the server. */
class CancelledException extends PillionException
{
    public string $errorCode = 'cancelled';
}
