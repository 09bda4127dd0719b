<?php

declare(strict_types=1);

namespace Pillion;

use Pillion\Fallback\Registry\Capabilities;
use Pillion\Fallback\Signature\Signature;

/**
 * A tool made from a definition and a PHP callable. {@see ToolRegistry::register()} creates such tools.
 */
final class CallableTool implements ToolInterface
{
    public readonly ToolDefinition $definition;
    private readonly \Closure $handler;

    /** @param callable(array<string, mixed> $arguments, string $toolCallId): mixed $handler */
    public function __construct(ToolDefinition $definition, callable $handler)
    {
        $this->definition = $definition;
        $this->handler = $handler(...);
    }

    public function getName(): string
    {
        return $this->definition->name;
    }

    public function getDefinition(): ToolDefinition
    {
        return $this->definition;
    }

    /** Runs the callable without checking the arguments; only executors check arguments. */
    public function execute(array $arguments, string $toolCallId): ToolResult
    {
        $binding = \Closure::bind(
            static fn (ToolDefinition $definition): ?array => $definition->binding,
            null,
            ToolDefinition::class,
        )($this->definition);
        $handlerArguments = $binding === null ? [$arguments, $toolCallId] : Signature::bind($binding, $arguments);
        // The callable is called with `call_user_func_array()`, which converts scalar arguments in
        // the same way as the extension.
        $returnValue = call_user_func_array($this->handler, $handlerArguments);
        return $returnValue instanceof ToolResult ? $returnValue : new ToolResult($toolCallId, $this->definition->name, $returnValue);
    }

    public function isAvailableForProvider(string $providerClass): bool
    {
        return true;
    }

    public function isEnabledForModel(array|object $model): bool
    {
        return Capabilities::fromModel($model)->hiddenReason($this->definition->name, null) === null;
    }
}
