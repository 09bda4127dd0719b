<?php

declare(strict_types=1);

namespace Pillion;

use Pillion\Fallback\Registry\Capabilities;
use Pillion\Fallback\Remote;

/**
 * A built-in tool, which the sidecar runs; comes from a registry.
 */
final class NativeTool implements ToolInterface
{
    private function __construct(
        private readonly ToolDefinition $definition,
        /** Whether it asks a service over the network, for which the sidecar may be set up or not. */
        private readonly bool $asksService,
    ) {
    }

    public function getName(): string
    {
        return $this->definition->name;
    }

    public function getDefinition(): ToolDefinition
    {
        return $this->definition;
    }

    /** Runs the tool with all checks of an executor. */
    public function execute(array $arguments, string $toolCallId): ToolResult
    {
        return Remote::run($this, $arguments, $toolCallId);
    }

    public function isAvailableForProvider(string $providerClass): bool
    {
        return true;
    }

    /** A tool that asks a service is for no model unless the sidecar offers it now. */
    public function isEnabledForModel(array|object $model): bool
    {
        return Capabilities::of($model)->refusal($this->definition->name, null) === null
            && (!$this->asksService || Remote::offers($this->definition));
    }
}
