<?php

declare(strict_types=1);

namespace Pillion;

/**
 * A tool that runs on an MCP server.
 */
interface MCPToolInterface extends ToolInterface
{
    /** @return array<string, mixed> the server entry: `server_url`, `server_label`, ... */
    public function getMCPServerConfig(): array;

    /** Returns a category such as `gaming` or `web`. */
    public function getMCPCategory(): string;

    /**
     * Returns whether the tool has a server, without any I/O. {@see MCPSSEClient::isAvailable()} contacts the
     * server.
     */
    public function isServerAvailable(): bool;
}
