<?php

declare(strict_types=1);

namespace Pillion;

use Pillion\Fallback\Registry\Capabilities;
use Pillion\Fallback\RunsInSidecar;
use Pillion\Fallback\SidecarTools;

/**
 * A built-in tool. With the library, the sidecar runs the tool. Registries create built-in tools.
 */
final class NativeTool implements ToolInterface
{
    use RunsInSidecar;

    private function __construct(
        private readonly ToolDefinition $definition,
        /**
         * Whether the tool calls a network service. The tool is available only if the sidecar
         * configures that service.
         */
        private readonly bool $usesService,
    ) {
    }

    /**
     * Returns whether a model may see the tool. With the library, models do not see a network tool
     * that the sidecar does not currently offer.
     */
    public function isEnabledForModel(array|object $model): bool
    {
        return Capabilities::fromModel($model)->hiddenReason($this->definition->name, null) === null
            && (!$this->usesService || SidecarTools::has($this->definition));
    }
}
