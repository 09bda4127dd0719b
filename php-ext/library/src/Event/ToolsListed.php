<?php

declare(strict_types=1);

namespace Pillion\Event;

/** The tools of an MCP server are known. */
final class ToolsListed
{
    /**
     * @param string $server its label, or else where it is, without what may be secret
     * @param int $tools how many there are
     * @param bool $fromCache whether the server was not asked
     */
    public function __construct(
        public readonly string $server,
        public readonly int $tools,
        public readonly bool $fromCache,
    ) {
    }
}
