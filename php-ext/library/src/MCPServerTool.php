<?php

declare(strict_types=1);

namespace Pillion;

use Pillion\Fallback\Registry\Capabilities;
use Pillion\Fallback\Registry\Origin;
use Pillion\Fallback\Remote;

/**
 * A tool that an MCP server listed; comes from {@see ToolRegistry::registerMcpServer()}.
 */
final class MCPServerTool implements MCPToolInterface
{
    private function __construct(
        private readonly ToolDefinition $definition,
        private readonly Origin $origin,
        private readonly string $sidecarName,
    ) {
    }

    public function getName(): string
    {
        return $this->definition->name;
    }

    public function getDefinition(): ToolDefinition
    {
        return $this->definition;
    }

    /** Runs the tool with all the checks of an executor. */
    public function execute(array $arguments, string $toolCallId): ToolResult
    {
        return Remote::run($this, $arguments, $toolCallId);
    }

    public function isAvailableForProvider(string $providerClass): bool
    {
        return true;
    }

    public function isEnabledForModel(array|object $model): bool
    {
        return Capabilities::of($model)->refusal($this->definition->name, $this->origin) === null;
    }

    /** @return array{type: 'mcp', server_label: string, server_url: string} without credentials */
    public function getMCPServerConfig(): array
    {
        return ['type' => 'mcp', 'server_label' => $this->origin->label, 'server_url' => $this->origin->url];
    }

    public function getMCPCategory(): string
    {
        return $this->definition->category;
    }

    public function isServerAvailable(): bool
    {
        return trim($this->origin->url) !== '';
    }
}
