<?php

declare(strict_types=1);

namespace Pillion\Exception;

/** The sidecar is not there, or a tool behind it is not set up. */
class UnavailableException extends PillionException
{
    public string $errorCode = 'unavailable';
}
