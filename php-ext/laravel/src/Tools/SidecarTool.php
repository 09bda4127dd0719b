<?php

declare(strict_types=1);

namespace Pillion\Laravel\Tools;

use Pillion\MCPToolAdapter;
use Pillion\Sidecar;
use Pillion\ToolCall;
use Pillion\ToolDefinition;
use Pillion\ToolResult;

/** A tool of an MCP server that runs through the sidecar. */
final class SidecarTool extends MCPToolAdapter
{
    public function __construct(
        private readonly Sidecar $sidecar,
        private readonly ToolDefinition $definition,
        string $serverLabel,
        private readonly ?string $user,
    ) {
        parent::__construct();
        // The sidecar's socket serves as the server URL, because models do not see an MCP tool
        // without a server URL.
        $this->serverConfig = [
            'type' => 'mcp',
            'server_label' => $serverLabel,
            'server_url' => 'unix:' . $sidecar->getSocketPath(),
        ];
        $this->serverAvailable = true;
    }

    public function getName(): string
    {
        return $this->definition->name;
    }

    public function getDefinition(): ToolDefinition
    {
        return $this->definition;
    }

    public function execute(array $arguments, string $toolCallId): ToolResult
    {
        $context = $this->user === null ? [] : ['user' => $this->user];
        return $this->sidecar->execute(new ToolCall($toolCallId, $this->getName(), $arguments), $context);
    }

    public function sidecar(): Sidecar
    {
        return $this->sidecar;
    }

    public function getMCPCategory(): string
    {
        return $this->definition->category;
    }
}
