<?php

declare(strict_types=1);

namespace Pillion\Exception;

/** A person or a policy denied the call. */
class DeniedException extends PillionException
{
    public string $errorCode = 'denied';
}
