<?php

declare(strict_types=1);

namespace Pillion;

/**
 * A tool that a model can call.
 */
interface ToolInterface
{
    /** Returns the tool's name, which must match `^[a-zA-Z_][a-zA-Z0-9_-]*$`. */
    public function getName(): string;

    /** Returns the definition, whose name must equal {@see getName()}. */
    public function getDefinition(): ToolDefinition;

    /**
     * Runs the tool. A failed result or an exception marks the call as failed.
     *
     * @param array<string, mixed> $arguments when an executor runs the tool: validated against the definition,
     *                                        with defaults filled in
     */
    public function execute(array $arguments, string $toolCallId): ToolResult;

    /** Returns whether a provider, named by its class, can use the tool. */
    public function isAvailableForProvider(string $providerClass): bool;

    /**
     * Returns whether a model may see the tool.
     *
     * @param array<string, mixed>|object $model see {@see ToolRegistry::getAvailableForModel()}
     */
    public function isEnabledForModel(array|object $model): bool;
}
