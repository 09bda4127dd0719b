<?php

declare(strict_types=1);

namespace Pillion\Tests\Support;

use Pillion\MCPToolInterface;
use Pillion\ToolDefinition;
use Pillion\ToolInterface;
use Pillion\ToolResult;

/** A wrapper around a tool of an MCP server, with the same name and server. */
final class Wrapper implements MCPToolInterface
{
    public int $calls = 0;

    public function __construct(private readonly MCPToolInterface $inner)
    {
    }

    public static function around(?ToolInterface $tool): self
    {
        return $tool instanceof MCPToolInterface ? new self($tool) : throw new \LogicException('No tool of an MCP server');
    }

    public function getName(): string
    {
        return $this->inner->getName();
    }

    public function getDefinition(): ToolDefinition
    {
        return $this->inner->getDefinition();
    }

    public function execute(array $arguments, string $toolCallId): ToolResult
    {
        $this->calls++;
        return $this->inner->execute($arguments, $toolCallId);
    }

    public function isAvailableForProvider(string $providerClass): bool
    {
        return $this->inner->isAvailableForProvider($providerClass);
    }

    public function isEnabledForModel(array|object $model): bool
    {
        return $this->inner->isEnabledForModel($model);
    }

    public function getMCPServerConfig(): array
    {
        return $this->inner->getMCPServerConfig();
    }

    public function getMCPCategory(): string
    {
        return $this->inner->getMCPCategory();
    }

    public function isServerAvailable(): bool
    {
        return $this->inner->isServerAvailable();
    }
}
