<?php

declare(strict_types=1);

namespace Pillion\Event;

/** The event that reports that an MCP server announced a change of its list of tools. */
final class ToolsChanged
{
    /**
     * @param string $server the server's label, or its address without secrets
     */
    public function __construct(
        public readonly string $server,
    ) {
    }
}
