<?php

namespace Pillion;

/**
 * A definition and a PHP callable as a tool; {@see ToolRegistry::register()} makes one.
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

    /** Runs the callable as it is: only executors check the arguments. */
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
