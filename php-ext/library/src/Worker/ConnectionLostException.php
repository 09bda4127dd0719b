<?php

declare(strict_types=1);

namespace Pillion\Worker;

use Pillion\Exception\TransportException;

/**
 * The sidecar is not running, has no capacity, or closed the connection; the worker tries again.
 *
 * @internal
 */
final class ConnectionLostException extends TransportException
{
    public string $errorCode = 'unavailable';
}
