<?php

namespace Pillion;

/**
 * A built-in tool. Registries create built-in tools.
 */
final class NativeTool implements ToolInterface
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
}
