<?php

declare(strict_types=1);

namespace Pillion\Worker;

use Pillion\Exception\TransportException;

/**
 * The exception for a sidecar that is not running, has no capacity, or closed the connection. The
 * worker then reconnects.
 *
 * @internal
 */
final class ConnectionLostException extends TransportException
{
    public string $errorCode = 'unavailable';
}
