<?php

declare(strict_types=1);

namespace Pillion\Laravel\Tests\Fixtures;

use Pillion\MCPToolAdapter;
use Pillion\ToolDefinition;
use Pillion\ToolResult;

/** A tool class with the entry of its server. */
final class OwnServerTool extends MCPToolAdapter
{
    public function getName(): string
    {
        return 'own';
    }

    public function getDefinition(): ToolDefinition
    {
        return new ToolDefinition('own', 'Its own', ['type' => 'object', 'properties' => []]);
    }

    public function getMCPCategory(): string
    {
        return 'test';
    }

    public function execute(array $arguments, string $toolCallId): ToolResult
    {
        return new ToolResult($toolCallId, 'own', $this->serverConfig['api_key'] ?? null);
    }
}
