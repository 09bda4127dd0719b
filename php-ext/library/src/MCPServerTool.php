<?php

declare(strict_types=1);

namespace Pillion;

use Pillion\Fallback\Registry\Capabilities;
use Pillion\Fallback\Registry\RequireApproval;
use Pillion\Fallback\Registry\ToolOrigin;
use Pillion\Fallback\RunsInSidecar;

/**
 * A tool that an MCP server listed. {@see ToolRegistry::registerMcpServer()} creates such tools.
 */
final class MCPServerTool implements MCPToolInterface
{
    use RunsInSidecar;

    private function __construct(
        private readonly ToolDefinition $definition,
        private readonly ToolOrigin $origin,
        private readonly string $sidecarName,
        /** The approval policy that the server entry sets for this tool. */
        private readonly ?string $approvalPolicy,
    ) {
    }

    public function isEnabledForModel(array|object $model): bool
    {
        return Capabilities::fromModel($model)->hiddenReason($this->definition->name, $this->origin) === null;
    }

    /**
     * Returns the server entry without credentials. `require_approval` is the policy for this tool, if the
     * server entry sets one.
     *
     * @return array{type: 'mcp', server_label: string, server_url: string, require_approval?: 'always'|'never'|'trusted-only'}
     */
    public function getMCPServerConfig(): array
    {
        $config = ['type' => 'mcp', 'server_label' => $this->origin->label, 'server_url' => $this->origin->url];
        return $this->approvalPolicy === null ? $config : $config + ['require_approval' => RequireApproval::SETTINGS_BY_POLICY[$this->approvalPolicy]];
    }

    public function getMCPCategory(): string
    {
        return $this->definition->category;
    }

    public function isServerAvailable(): bool
    {
        return trim($this->origin->url) !== '';
    }
}
