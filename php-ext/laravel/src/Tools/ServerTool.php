<?php

declare(strict_types=1);

namespace Pillion\Laravel\Tools;

use Pillion\ToolDefinition;
use Pillion\ToolInterface;
use Pillion\ToolResult;
use SensitiveParameterValue;

/**
 * Wraps an instance of the tool class of a configured server. Dumps do not show the instance, because it has
 * received the server's entry with the credentials.
 */
class ServerTool implements ToolInterface
{
    private readonly SensitiveParameterValue $tool;

    public function __construct(#[\SensitiveParameter] ToolInterface $tool)
    {
        $this->tool = new SensitiveParameterValue($tool);
    }

    public function getName(): string
    {
        return $this->tool()->getName();
    }

    public function getDefinition(): ToolDefinition
    {
        return $this->tool()->getDefinition();
    }

    public function execute(array $arguments, string $toolCallId): ToolResult
    {
        return $this->tool()->execute($arguments, $toolCallId);
    }

    public function isAvailableForProvider(string $providerClass): bool
    {
        return $this->tool()->isAvailableForProvider($providerClass);
    }

    public function isEnabledForModel(array|object $model): bool
    {
        return $this->tool()->isEnabledForModel($model);
    }

    /** Returns the instance of the tool class. */
    public function tool(): ToolInterface
    {
        return $this->tool->getValue();
    }
}
