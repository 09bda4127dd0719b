<?php

declare(strict_types=1);

namespace Pillion\Laravel\Tools;

use Pillion\MCPToolInterface;

/** A {@see ContainerTool} that runs on an MCP server. */
final class ContainerMcpTool extends ContainerTool implements MCPToolInterface
{
    public function getMCPServerConfig(): array
    {
        return $this->withTool(fn (MCPToolInterface $tool) => $tool->getMCPServerConfig(), []);
    }

    public function getMCPCategory(): string
    {
        return $this->withTool(fn (MCPToolInterface $tool) => $tool->getMCPCategory(), $this->getDefinition()->category);
    }

    public function isServerAvailable(): bool
    {
        return $this->withTool(fn (MCPToolInterface $tool) => $tool->isServerAvailable(), false);
    }
}
