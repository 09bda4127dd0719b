<?php

declare(strict_types=1);

namespace Pillion\Worker;

use Pillion\Exception\TransportException;

/**
 * The sidecar is not there, has no place, or is gone: a worker tries again.
 *
 * @internal
 */
final class Lost extends TransportException
{
    public string $errorCode = 'unavailable';
}
