<?php

declare(strict_types=1);

namespace Pillion\Laravel\Testing;

use Pillion\MCPToolInterface;

/** A fake for a tool of an MCP server. */
final class FakeMcpTool extends FakeTool implements MCPToolInterface
{
    public function __construct(PillionFake $fake, private readonly MCPToolInterface $tool)
    {
        parent::__construct($fake, $tool);
    }

    public function getMCPServerConfig(): array
    {
        return $this->tool->getMCPServerConfig();
    }

    public function getMCPCategory(): string
    {
        return $this->tool->getMCPCategory();
    }

    public function isServerAvailable(): bool
    {
        return $this->fake->hasFakeFor($this->fake->namesOf($this->originalTool)) || $this->tool->isServerAvailable();
    }
}
