<?php

declare(strict_types=1);

namespace Pillion\Laravel\Tools;

use Illuminate\Contracts\Config\Repository;
use Pillion\Laravel\ConfigReader;
use Pillion\Laravel\Testing\PillionFake;
use Pillion\ToolRegistry;

/**
 * Creates the registry of one request: the application's tools, and the tools of servers and sidecar for its
 * user.
 */
final class RequestRegistry
{
    /** @param ?RemoteToolLoader $loader null to add no tools of servers or the sidecar */
    public static function make(
        ToolRegistry $application,
        Repository $config,
        ?RemoteToolLoader $loader,
        ?PillionFake $fake,
    ): ToolRegistry {
        $registry = new ToolRegistry();
        foreach ($application->getAll() as $tool) {
            $registry->register($tool);
        }
        $loader?->addTo($registry);
        $fake?->install($registry);
        foreach (ConfigReader::readStrings($config, 'tools.aliases') as $alias => $tool) {
            // The alias may name a tool of a server that is not available now.
            if ($registry->has($tool)) {
                $registry->alias($alias, $tool);
            }
        }
        return $registry;
    }
}
