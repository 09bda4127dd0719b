<?php

namespace Pillion\Exception;

/** The sidecar is not available, or a tool in the sidecar is not configured. */
class UnavailableException extends PillionException
{
    public string $errorCode = 'unavailable';
}
