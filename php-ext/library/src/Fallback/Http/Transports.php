<?php

declare(strict_types=1);

namespace Pillion\Fallback\Http;

use Pillion\Fallback\Failure;

/**
 * The process's ways to its sidecars, so that all objects share the kept connections.
 *
 * @internal
 */
final class Transports
{
    /** Bytes of a Unix socket's path at most. The system cuts a longer one off. */
    private const LONGEST_PATH = 107;

    /** @var array<string, Transport> by path */
    private static array $byPath = [];
    private static ?int $process = null;

    /** @throws \Pillion\Exception\UnavailableException for a path that no socket can have */
    public static function to(string $path): Transport
    {
        self::check($path);
        if (self::$process !== getmypid()) {
            // A child of a fork must not speak on its parent's connections.
            self::$byPath = [];
            self::$process = getmypid();
        }
        return self::$byPath[$path] ??= CurlTransport::isPossible() ? new CurlTransport($path) : new StreamTransport($path);
    }

    /** @throws \Pillion\Exception\UnavailableException for a path that no socket can have */
    public static function check(string $path): void
    {
        if ($path === '' || strlen($path) > self::LONGEST_PATH || str_contains($path, "\0")) {
            throw Failure::unavailable(
                "Cannot connect to the sidecar at $path: a socket's path has 1 to " . self::LONGEST_PATH . ' bytes, none of them zero',
            );
        }
    }
}
