<?php

declare(strict_types=1);

namespace Pillion\Event;

/** A session with an MCP server has been opened. */
final class ServerConnected
{
    /**
     * @param string $server its label, or else where it is, without what may be secret
     * @param ?string $protocolVersion the revision in use
     */
    public function __construct(
        public readonly string $server,
        public readonly ?string $protocolVersion,
    ) {
    }
}
