<?php

declare(strict_types=1);

namespace Pillion;

/**
 * A tool whose work is done by an MCP server.
 */
interface MCPToolInterface extends ToolInterface
{
    /** @return array<string, mixed> the server entry: `server_url`, `server_label`, ... */
    public function getMCPServerConfig(): array;

    /** A word such as `gaming` or `web`. */
    public function getMCPCategory(): string;

    /** Whether a server is set. No I/O: {@see MCPSSEClient::isAvailable()} asks the server. */
    public function isServerAvailable(): bool;
}
