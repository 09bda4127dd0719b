<?php

namespace Pillion;

/**
 * A tool that an MCP server listed. {@see ToolRegistry::registerMcpServer()} creates such tools.
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

    /** Runs the tool with all checks of an executor. */
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
     * Returns the server entry without credentials. `require_approval` is the policy for this tool, if the
     * server entry sets one.
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
