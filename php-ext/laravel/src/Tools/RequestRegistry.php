<?php

declare(strict_types=1);

namespace Pillion\Laravel\Tools;

use Illuminate\Contracts\Config\Repository;
use Pillion\Laravel\Configured;
use Pillion\Laravel\Testing\PillionFake;
use Pillion\ToolRegistry;

/** Makes the registry of one request: the application's tools, and what others offer to its user. */
final class RequestRegistry
{
    /** @param ?Offer $offer null when nobody else is to be asked */
    public static function make(
        ToolRegistry $application,
        Repository $config,
        ?Offer $offer,
        ?PillionFake $fake,
    ): ToolRegistry {
        $registry = new ToolRegistry();
        foreach ($application->getAll() as $tool) {
            $registry->register($tool);
        }
        $offer?->addTo($registry);
        $fake?->install($registry);
        foreach (Configured::texts($config, 'tools.aliases') as $alias => $tool) {
            // It may be the tool of a server that is not there now.
            if ($registry->has($tool)) {
                $registry->alias($alias, $tool);
            }
        }
        return $registry;
    }
}
