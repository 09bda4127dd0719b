<?php
namespace App\Services\AI\Tools\Implementations;

use Pillion\MCPToolAdapter;
use Pillion\MCPSSEClient;
use Pillion\ToolDefinition;
use Pillion\ToolResult;

class MyMcpTool extends MCPToolAdapter
{
    public function __construct(array $serverConfig)
    {
        parent::__construct($serverConfig);
    }

    public function getName(): string
    {
        return 'my_mcp_tool';
    }

    public function getDefinition(): ToolDefinition
    {
        return new ToolDefinition(
            name: 'my_mcp_tool',
            description: 'Description of what your tool does',
            parameters: [
                'type' => 'object',
                'properties' => [
                    'param1' => [
                        'type' => 'string',
                        'description' => 'Parameter description',
                    ],
                ],
                'required' => ['param1'],
            ],
            strict: false
        );
    }

    public function getMCPCategory(): string
    {
        return 'category'; // e.g., 'web', 'filesystem', 'gaming'
    }

    public function execute(array $arguments, string $toolCallId): ToolResult
    {
        if (!$this->serverAvailable || !$this->client) {
            return new ToolResult(
                toolCallId: $toolCallId,
                toolName: $this->getName(),
                result: ['error' => 'MCP server not available'],
                success: false,
                error: 'Server unavailable'
            );
        }

        try {
            // Call the MCP server
            $response = $this->client->callTool('tool_name', $arguments);

            return new ToolResult(
                toolCallId: $toolCallId,
                toolName: $this->getName(),
                result: $response,
                success: true
            );
        } catch (\Exception $e) {
            return new ToolResult(
                toolCallId: $toolCallId,
                toolName: $this->getName(),
                result: ['error' => $e->getMessage()],
                success: false,
                error: $e->getMessage()
            );
        }
    }

}
