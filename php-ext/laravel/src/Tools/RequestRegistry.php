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
        self::addAliases($registry, $config);
        return $registry;
    }

    /** Adds the configured aliases of the tools in the registry. An alias may name a tool that is not available now. */
    public static function addAliases(ToolRegistry $registry, Repository $config): void
    {
        foreach (ConfigReader::readStrings($config, 'tools.aliases') as $alias => $tool) {
            if ($registry->has($tool)) {
                $registry->alias($alias, $tool);
            }
        }
    }
}
