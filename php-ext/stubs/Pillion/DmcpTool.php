<?php

namespace Pillion;

/**
 * `dmcp_roll_dice`: dice from a remote MCP server.
 *
 * The server entry may map names: `tool_name` (`roll` unless set) and `argument_names`,
 * such as `['dice' => 'diceRollExpression', 'reason' => null]`; null leaves one out.
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
