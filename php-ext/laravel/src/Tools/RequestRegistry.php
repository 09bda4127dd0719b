<?php

declare(strict_types=1);

namespace Pillion\Laravel\Tools;

use Illuminate\Contracts\Config\Repository;
use Pillion\Laravel\ConfigReader;
use Pillion\Laravel\Testing\PillionFake;
use Pillion\ToolRegistry;

/**
 * Creates the registry of one request. The registry contains the application's tools, and the tools
 * that the MCP servers and the sidecar offer to the user of the request.
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
        $loader?->addTools($registry);
        $fake?->install($registry);
        self::addAliases($registry, $config);
        return $registry;
    }

    /**
     * Adds the configured aliases of the tools in the registry. An alias of a tool that is not
     * available now is skipped.
     */
    public static function addAliases(ToolRegistry $registry, Repository $config): void
    {
        foreach (ConfigReader::readStrings($config, 'tools.aliases') as $alias => $tool) {
            if ($registry->has($tool)) {
                $registry->alias($alias, $tool);
            }
        }
    }
}
