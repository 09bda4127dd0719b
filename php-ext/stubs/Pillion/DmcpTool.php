<?php

namespace Pillion;

/**
 * The tool `dmcp_roll_dice`: rolls dice on a remote MCP server.
 *
 * The server entry can rename the remote tool (`tool_name`, default `roll`) and the arguments
 * (`argument_names`, for example `['dice' => 'diceRollExpression', 'reason' => null]`; null omits an
 * argument).
 */
class DmcpTool extends MCPToolAdapter
{
    public function getName(): string
    {
    }

    public function getDefinition(): ToolDefinition
    {
    }

    public function getMCPCategory(): string
    {
    }

    /** @param array{dice?: string, reason?: string} $arguments */
    public function execute(array $arguments, string $toolCallId): ToolResult
    {
    }
}
