<?php

declare(strict_types=1);

namespace Pillion\Fallback;

/**
 * Where the sidecar listens when nobody says otherwise; the same rules as its own.
 *
 * @internal
 */
final class SocketPath
{
    /**
     * `$PILLION_SOCKET`, else `/run/pillion/pillion.sock` for root, else
     * `$XDG_RUNTIME_DIR/pillion/pillion.sock`, else `/run/pillion/pillion.sock`.
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
