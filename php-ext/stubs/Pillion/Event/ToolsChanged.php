<?php

namespace Pillion\Event;

/** An MCP server announced that its list of tools has changed. */
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
