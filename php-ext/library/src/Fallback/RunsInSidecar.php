<?php

declare(strict_types=1);

namespace Pillion\Fallback;

use Pillion\ToolDefinition;
use Pillion\ToolResult;

/**
 * The methods shared by all classes whose tools run in the sidecar. A class that uses the trait
 * must have a property `$definition`.
 *
 * @internal
 */
trait RunsInSidecar
{
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
        return SidecarTools::run($this, $arguments, $toolCallId);
    }

    public function isAvailableForProvider(string $providerClass): bool
    {
        return true;
    }
}
