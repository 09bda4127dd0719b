<?php

declare(strict_types=1);

namespace Pillion\Laravel\Tests\Fixtures;

use Pillion\MCPToolAdapter;
use Pillion\ToolDefinition;
use Pillion\ToolResult;

/** A tool class with its own entry; several instances are possible. */
final class LabelledTool extends MCPToolAdapter
{
    private const ENTRY = ['server_label' => 'shop', 'require_approval' => ['always' => ['tool_names' => ['labelled']]]];

    /** @param array<string, mixed> $entry */
    public function __construct(private readonly string $name = 'labelled', array $entry = self::ENTRY)
    {
        parent::__construct($entry);
    }

    public function getName(): string
    {
        return $this->name;
    }

    public function getDefinition(): ToolDefinition
    {
        return new ToolDefinition($this->name, 'One of several', ['type' => 'object', 'properties' => []]);
    }

    public function getMCPCategory(): string
    {
        return 'test';
    }

    public function execute(array $arguments, string $toolCallId): ToolResult
    {
        return new ToolResult($toolCallId, $this->name, 'done');
    }
}
