<?php

declare(strict_types=1);

namespace Pillion\Tests\Support;

use Pillion\ToolDefinition;
use Pillion\ToolInterface;
use Pillion\ToolResult;

/** A PHP tool that returns its text in upper case. */
class Upper implements ToolInterface
{
    public function getName(): string
    {
        return 'upper';
    }

    public function getDefinition(): ToolDefinition
    {
        return new ToolDefinition('upper', 'Capitals', [['name' => 'text', 'type' => 'string']]);
    }

    public function execute(array $arguments, string $toolCallId): ToolResult
    {
        return new ToolResult(
            toolCallId: $toolCallId,
            toolName: $this->getName(),
            result: strtoupper($arguments['text']),
        );
    }

    public function isAvailableForProvider(string $providerClass): bool
    {
        return str_contains($providerClass, 'OpenAi');
    }

    public function isEnabledForModel(array|object $model): bool
    {
        return true;
    }
}
