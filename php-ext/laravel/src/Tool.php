<?php

declare(strict_types=1);

namespace Pillion\Laravel;

use Pillion\CallableTool;
use Pillion\ToolInterface;

/** A base class for tools: a subclass implements only the definition and `execute()`. */
abstract class Tool implements ToolInterface
{
    public function getName(): string
    {
        return $this->getDefinition()->name;
    }

    public function isAvailableForProvider(string $providerClass): bool
    {
        return true;
    }

    /**
     * Returns whether a model may see the tool: true for models with `function_calling` whose
     * `enabled_tools` allow the tool's name.
     */
    public function isEnabledForModel(array|object $model): bool
    {
        return (new CallableTool($this->getDefinition(), static fn () => null))->isEnabledForModel($model);
    }
}
