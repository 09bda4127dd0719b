<?php

namespace Pillion\Exception;

/** The peer cannot be reached, closes the connection, or sends an invalid message. */
class TransportException extends PillionException
{
    public string $errorCode = 'unavailable';
    /** The HTTP status, if the peer sent one. */
    public ?int $httpStatus = null;
}
