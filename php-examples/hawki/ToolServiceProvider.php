<?php

declare(strict_types=1);

namespace App\Services\AI\Tools;

use App\Services\AI\Tools\Implementations\MyMcpTool;
use Illuminate\Support\Facades\Log;
use Illuminate\Support\ServiceProvider;
use Pillion\DmcpTool;
use Pillion\ToolRegistry;

/**
 * Registers tools as described in HAWKI's guide: each server entry has a tool class, and the
 * registration causes no network traffic.
 */
class ToolServiceProvider extends ServiceProvider
{
    public function boot(): void
    {
        $this->registerMCPTools(app(ToolRegistry::class));
    }

    private function registerMCPTools(ToolRegistry $registry): void
    {
        $mcpServers = [
            [
                'type' => 'mcp',
                'class' => DmcpTool::class,
                'server_label' => 'dmcp',
                'server_description' => 'Rolls dice',
                'server_url' => env('DMCP_URL', 'https://dmcp-server.deno.dev/sse'),
                'require_approval' => 'never',
            ],
            [
                'type' => 'mcp',
                'class' => MyMcpTool::class,
                'server_label' => 'my_mcp',
                'server_description' => 'Description of my MCP server',
                'server_url' => 'http://127.0.0.1:9/sse',
                'require_approval' => 'always',
            ],
        ];

        foreach ($mcpServers as $serverConfig) {
            try {
                $toolClass = $serverConfig['class'];
                $registry->register(new $toolClass($serverConfig));
            } catch (\Exception $exception) {
                Log::error('Failed to register MCP tool', [
                    'server' => $serverConfig['server_label'],
                    'error' => $exception->getMessage(),
                ]);
            }
        }
    }
}
