<?php

declare(strict_types=1);

namespace Pillion\Exception;

/** The sidecar has no tool of that name. */
class NotFoundException extends PillionException
{
    public string $errorCode = 'not_found';
}
