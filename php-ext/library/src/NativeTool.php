<?php

declare(strict_types=1);

namespace Pillion;

use Pillion\Fallback\Registry\Capabilities;
use Pillion\Fallback\RunsInSidecar;
use Pillion\Fallback\SidecarTools;

/**
 * A built-in tool; with the library, the sidecar runs it. Registries create built-in tools.
 */
final class NativeTool implements ToolInterface
{
    use RunsInSidecar;

    private function __construct(
        private readonly ToolDefinition $definition,
        /** Whether the tool calls a network service, which the sidecar may or may not have configured. */
        private readonly bool $usesService,
    ) {
    }

    /**
     * With the library, also returns false for a tool that calls a network service if the sidecar does not currently
     * offer the tool.
     */
    public function isEnabledForModel(array|object $model): bool
    {
        return Capabilities::fromModel($model)->reasonHidden($this->definition->name, null) === null
            && (!$this->usesService || SidecarTools::has($this->definition));
    }
}
