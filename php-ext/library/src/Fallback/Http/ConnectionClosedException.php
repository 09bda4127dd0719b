<?php

declare(strict_types=1);

namespace Pillion\Fallback\Http;

use Pillion\Exception\TransportException;

/**
 * The sidecar closed the connection before it sent a complete response.
 *
 * @internal
 */
final class ConnectionClosedException extends TransportException
{
}
