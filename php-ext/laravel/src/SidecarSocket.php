<?php

declare(strict_types=1);

namespace Pillion\Laravel;

use Illuminate\Container\Container;
use Pillion\Exception\InvalidInputException;

/**
 * The socket that the current application's config/pillion.php sets for every class of the extension or the library.
 *
 * @internal
 */
final class SidecarSocket
{
    /**
     * Returns `pillion.sidecar.socket`; null for the default socket. Reads the configuration of the current
     * container each time: Octane has another one for each request.
     *
     * @throws InvalidInputException when the setting is not a string
     */
    public static function configured(): ?string
    {
        $app = Container::getInstance();
        $socket = $app->bound('config') ? $app->make('config')->get('pillion.sidecar.socket') : null;
        if ($socket !== null && !is_string($socket)) {
            throw ConfigReader::invalid('sidecar.socket', 'must be a path or null', $socket);
        }
        return $socket;
    }
}
