<?php

declare(strict_types=1);

namespace Pillion\Laravel\Testing;

/** A call recorded in a test. */
final class RecordedCall
{
    /**
     * @param string               $tool         the name in the registry, with the server's prefix
     * @param array<string, mixed> $arguments
     * @param ?string              $server       the MCP server, if the tool was called through `Pillion::server()`
     * @param ?string              $nameOnServer the tool's name on its MCP server; null for a tool without a server
     */
    public function __construct(
        public readonly string $tool,
        public readonly array $arguments,
        public readonly string $id,
        public readonly ?string $server = null,
        public readonly ?string $nameOnServer = null,
    ) {
    }

    public function names(): ToolNames
    {
        return new ToolNames($this->tool, $this->nameOnServer);
    }
}
