<?php

declare(strict_types=1);

namespace Pillion;

/**
 * A tool: what a model can call.
 */
interface ToolInterface
{
    /** The name that the model calls it by: `^[a-zA-Z_][a-zA-Z0-9_-]*$`. */
    public function getName(): string;

    /** The definition; its name must be that of {@see getName()}. */
    public function getDefinition(): ToolDefinition;

    /**
     * Runs the tool. A failure is a result with `success: false`, or an exception, which
     * becomes one.
     *
     * @param array<string, mixed> $arguments validated against the definition, with
     *                                        defaults filled in, when an executor calls
     */
    public function execute(array $arguments, string $toolCallId): ToolResult;

    /** Whether the tool can be used with a provider, given by the name of its class. */
    public function isAvailableForProvider(string $providerClass): bool;

    /**
     * Whether a model may see the tool.
     *
     * @param array<string, mixed>|object $model see {@see ToolRegistry::getAvailableForModel()}
     */
    public function isEnabledForModel(array|object $model): bool;
}
