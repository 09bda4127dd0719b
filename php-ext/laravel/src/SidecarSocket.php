<?php

declare(strict_types=1);

namespace Pillion\Laravel;

use Illuminate\Container\Container;

/**
 * Provides the socket of the sidecar from the current application's config/pillion.php to all
 * classes of the extension or the library.
 *
 * @internal
 */
final class SidecarSocket
{
    /**
     * Returns `pillion.sidecar.socket`; null for the default socket. Each call reads the
     * configuration of the current container, because Octane creates a new container for each
     * request.
     *
     * @throws \Pillion\Exception\InvalidInputException when the configuration is invalid
     */
    public static function readPath(): ?string
    {
        $app = Container::getInstance();
        return $app->bound('config') ? ConfigReader::readOptionalText($app->make('config'), 'sidecar.socket') : null;
    }
}
