<?php

declare(strict_types=1);

namespace Pillion\Laravel\Testing;

use Pillion\ToolCall;
use Pillion\ToolDefinition;
use Pillion\ToolInterface;
use Pillion\ToolResult;

/**
 * Wraps a tool in a test and replaces only its execution by a fake. If the test has no fake for the
 * tool's name and allows stray calls, the wrapped tool runs.
 */
class FakeTool implements ToolInterface
{
    public function __construct(protected readonly PillionFake $fake, protected readonly ToolInterface $originalTool)
    {
    }

    public function getName(): string
    {
        return $this->originalTool->getName();
    }

    public function getDefinition(): ToolDefinition
    {
        return $this->originalTool->getDefinition();
    }

    public function execute(array $arguments, string $toolCallId): ToolResult
    {
        $call = new ToolCall($toolCallId, $this->getName(), $arguments);
        $names = $this->fake->namesOf($this->originalTool);
        if ($this->fake->hasFakeFor($names)) {
            return $this->fake->resultFor($names, $call);
        }
        $this->fake->recordStrayCall($names, $call);
        return $this->originalTool->execute($arguments, $toolCallId);
    }

    public function isAvailableForProvider(string $providerClass): bool
    {
        return $this->originalTool->isAvailableForProvider($providerClass);
    }

    public function isEnabledForModel(array|object $model): bool
    {
        return $this->originalTool->isEnabledForModel($model);
    }
}
