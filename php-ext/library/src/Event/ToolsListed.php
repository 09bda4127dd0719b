<?php

declare(strict_types=1);

namespace Pillion\Event;

/** The event that reports that the tool list of an MCP server was loaded. */
final class ToolsListed
{
    /**
     * @param string $server the server's label, or its address without secrets
     * @param int $tools the number of tools
     * @param bool $fromCache whether the list came from the cache instead of the server
     */
    public function __construct(
        public readonly string $server,
        public readonly int $tools,
        public readonly bool $fromCache,
    ) {
    }
}
