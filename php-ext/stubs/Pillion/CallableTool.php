<?php

namespace Pillion;

/**
 * A tool made from a definition and a PHP callable. {@see ToolRegistry::register()} creates such tools.
 */
final class CallableTool implements ToolInterface
{
    public readonly ToolDefinition $definition;
    private mixed $handler = null;

    /** @param callable(array<string, mixed> $arguments, string $toolCallId): mixed $handler */
    public function __construct(ToolDefinition $definition, callable $handler)
    {
    }

    public function getName(): string
    {
    }

    public function getDefinition(): ToolDefinition
    {
    }

    /** Runs the callable without checking the arguments; only executors check arguments. */
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
