<?php

declare(strict_types=1);

namespace Pillion\Laravel\Testing;

use Pillion\MCPToolAdapter;
use Pillion\ToolDefinition;
use Pillion\ToolResult;

/**
 * A faked tool of a configured MCP server. The test does not load the server's list of tools, so
 * the real definition is unknown.
 */
final class FakeServerTool extends MCPToolAdapter
{
    public function __construct(private readonly string $name, string $server)
    {
        parent::__construct(['type' => 'mcp', 'server_label' => $server, 'server_url' => 'https://fake.invalid/']);
    }

    public function getName(): string
    {
        return $this->name;
    }

    public function getDefinition(): ToolDefinition
    {
        return new ToolDefinition($this->name, 'A fake', ['type' => 'object', 'properties' => []], category: 'mcp');
    }

    public function getMCPCategory(): string
    {
        return 'mcp';
    }

    public function execute(array $arguments, string $toolCallId): ToolResult
    {
        throw new \LogicException("Tool '$this->name' is faked and has no implementation");
    }
}
