<?php

declare(strict_types=1);

namespace Pillion\Fallback;

/**
 * The default path of the sidecar's socket, by the same rules as the sidecar.
 *
 * @internal
 */
final class SocketPath
{
    /**
     * Returns `$PILLION_SOCKET`, otherwise `/run/pillion/pillion.sock` for root, otherwise
     * `$XDG_RUNTIME_DIR/pillion/pillion.sock`, otherwise `/run/pillion/pillion.sock`.
     */
    public static function default(): string
    {
        $socket = getenv('PILLION_SOCKET');
        if (is_string($socket) && $socket !== '') {
            return $socket;
        }
        $directory = getenv('XDG_RUNTIME_DIR');
        $isRoot = function_exists('posix_geteuid') && posix_geteuid() === 0;
        $isUsable = !$isRoot && is_string($directory) && str_starts_with($directory, '/');
        return rtrim($isUsable ? $directory : '/run', '/') . '/pillion/pillion.sock';
    }
}
