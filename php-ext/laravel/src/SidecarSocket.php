<?php

declare(strict_types=1);

namespace Pillion\Laravel;

use Illuminate\Container\Container;

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
     * @throws \Pillion\Exception\InvalidInputException when the configuration is invalid
     */
    public static function configured(): ?string
    {
        $app = Container::getInstance();
        return $app->bound('config') ? ConfigReader::readOptionalText($app->make('config'), 'sidecar.socket') : null;
    }
}
