<?php

declare(strict_types=1);

namespace Pillion\Event;

/** The event that reports that an MCP session was opened. */
final class ServerConnected
{
    /**
     * @param string $server the server's label, or its address without secrets
     * @param ?string $protocolVersion the negotiated MCP revision
     */
    public function __construct(
        public readonly string $server,
        public readonly ?string $protocolVersion,
    ) {
    }
}
