<?php

namespace Pillion;

/**
 * A tool that an MCP server listed; comes from {@see ToolRegistry::registerMcpServer()}.
 */
final class MCPServerTool implements MCPToolInterface
{
    private function __construct()
    {
    }

    public function getName(): string
    {
    }

    public function getDefinition(): ToolDefinition
    {
    }

    /** Runs the tool with all the checks of an executor. */
    public function execute(array $arguments, string $toolCallId): ToolResult
    {
    }

    public function isAvailableForProvider(string $providerClass): bool
    {
    }

    public function isEnabledForModel(array|object $model): bool
    {
    }

    /**
     * Without credentials; `require_approval` is what holds for this tool, where the server's entry said so.
     *
     * @return array{type: 'mcp', server_label: string, server_url: string, require_approval?: 'always'|'never'|'trusted-only'}
     */
    public function getMCPServerConfig(): array
    {
    }

    public function getMCPCategory(): string
    {
    }

    public function isServerAvailable(): bool
    {
    }
}
