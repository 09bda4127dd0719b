<?php

declare(strict_types=1);

namespace Pillion\Event;

/** An MCP server said that its tools are others now. */
final class ToolsChanged
{
    /**
     * @param string $server its label, or else where it is, without what may be secret
     */
    public function __construct(
        public readonly string $server,
    ) {
    }
}
