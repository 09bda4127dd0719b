<?php

declare(strict_types=1);

namespace Pillion\Fallback;

/**
 * Determines the socket of every connection whose caller does not specify a socket. No other class
 * of the library reads the environment.
 *
 * @internal
 */
final class SocketPath
{
    private static ?\Closure $resolver = null;

    /** Sets the function that {@see default()} calls first to determine the socket. */
    public static function setResolver(?\Closure $resolver): void
    {
        self::$resolver = $resolver;
    }

    /**
     * Returns the first of these paths that is set:
     *
     *  - the path that the application's resolver returns
     *  - `$PILLION_SOCKET`
     *  - `$XDG_RUNTIME_DIR/pillion/pillion.sock`, unless the process runs as root
     *  - `/run/pillion/pillion.sock`
     *
     * @throws \Pillion\Exception\InvalidInputException when the resolver returns neither a string nor null
     */
    public static function default(): string
    {
        $resolvedPath = self::$resolver === null ? null : (self::$resolver)();
        if ($resolvedPath !== null && !is_string($resolvedPath)) {
            throw Failure::invalidInput("The resolver of the sidecar's socket must return a string or null, not " . get_debug_type($resolvedPath));
        }
        foreach ([$resolvedPath, getenv('PILLION_SOCKET')] as $socket) {
            if (is_string($socket) && $socket !== '') {
                return $socket;
            }
        }
        $directory = getenv('XDG_RUNTIME_DIR');
        $isRoot = function_exists('posix_geteuid') && posix_geteuid() === 0;
        $usesDirectory = !$isRoot && is_string($directory) && str_starts_with($directory, '/');
        return rtrim($usesDirectory ? $directory : '/run', '/') . '/pillion/pillion.sock';
    }
}
