<?php

declare(strict_types=1);

namespace Pillion\Fallback\Http;

use Pillion\Fallback\Failure;

/**
 * The transports of this process by socket path, so that all objects share persistent connections.
 *
 * @internal
 */
final class Transports
{
    /** Maximum length of a Unix socket path in bytes. The system would truncate a longer path. */
    private const MAX_PATH_LEN = 107;

    /** @var array<string, Transport> by path */
    private static array $transports = [];
    private static ?int $processId = null;

    /** @throws \Pillion\Exception\UnavailableException when the path is not a valid socket path */
    public static function forPath(string $socketPath): Transport
    {
        self::check($socketPath);
        if (self::$processId !== getmypid()) {
            // The transports are dropped in a forked child, which must not use its parent's
            // connections.
            self::$transports = [];
            self::$processId = getmypid();
        }
        return self::$transports[$socketPath] ??= CurlTransport::isSupported() ? new CurlTransport($socketPath) : new StreamTransport($socketPath);
    }

    /** @throws \Pillion\Exception\UnavailableException when the path is not a valid socket path */
    public static function check(string $socketPath): void
    {
        if ($socketPath === '' || strlen($socketPath) > self::MAX_PATH_LEN || str_contains($socketPath, "\0")) {
            throw Failure::unavailable(
                "Cannot connect to the sidecar at $socketPath: a socket's path has 1 to " . self::MAX_PATH_LEN . ' bytes, none of them zero',
            );
        }
    }
}
