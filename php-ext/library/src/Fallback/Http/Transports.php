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
    private static array $byPath = [];
    private static ?int $processId = null;

    /** @throws \Pillion\Exception\UnavailableException when the path is not a valid socket path */
    public static function to(string $path): Transport
    {
        self::check($path);
        if (self::$processId !== getmypid()) {
            // A forked child must not use its parent's connections.
            self::$byPath = [];
            self::$processId = getmypid();
        }
        return self::$byPath[$path] ??= CurlTransport::isPossible() ? new CurlTransport($path) : new StreamTransport($path);
    }

    /** @throws \Pillion\Exception\UnavailableException when the path is not a valid socket path */
    public static function check(string $path): void
    {
        if ($path === '' || strlen($path) > self::MAX_PATH_LEN || str_contains($path, "\0")) {
            throw Failure::unavailable(
                "Cannot connect to the sidecar at $path: a socket's path has 1 to " . self::MAX_PATH_LEN . ' bytes, none of them zero',
            );
        }
    }
}
