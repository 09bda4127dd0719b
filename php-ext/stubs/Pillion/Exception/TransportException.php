<?php

namespace Pillion\Exception;

/** A peer cannot be reached, breaks off, or sends what makes no sense. */
class TransportException extends PillionException
{
    public string $errorCode = 'unavailable';
    /** The HTTP status, where there was one. */
    public ?int $httpStatus = null;
}
