<?php

declare(strict_types=1);

namespace Pillion\Laravel\Tools;

use Pillion\MCPToolInterface;

/** A {@see ServerTool} that runs on an MCP server. */
final class ServerMcpTool extends ServerTool implements MCPToolInterface
{
    public function getMCPServerConfig(): array
    {
        return $this->mcpTool()->getMCPServerConfig();
    }

    public function getMCPCategory(): string
    {
        return $this->mcpTool()->getMCPCategory();
    }

    public function isServerAvailable(): bool
    {
        return $this->mcpTool()->isServerAvailable();
    }

    private function mcpTool(): MCPToolInterface
    {
        $tool = $this->tool();
        assert($tool instanceof MCPToolInterface);
        return $tool;
    }
}
