<?php

declare(strict_types=1);

namespace Pillion\Laravel\Work;

use Illuminate\Contracts\Config\Repository;
use Pillion\Laravel\ConfigReader;
use Pillion\Laravel\Execution\ExecutorOptions;
use Pillion\Laravel\Servers\ServerDirectory;
use Pillion\MCPToolInterface;
use Pillion\NativeTool;
use Pillion\ToolInterface;
use Pillion\ToolRegistry;
use Pillion\Worker;

/**
 * The tools that a worker offers: the application's own tools, without the tools that are built
 * into the sidecar, with the approval policies and timeouts of config/pillion.php.
 */
final class WorkerTools
{
    public function __construct(private readonly Repository $config, private readonly ServerDirectory $servers)
    {
    }

    /** @throws \Pillion\Exception\InvalidInputException when the configuration or a tool is invalid */
    public function addTools(Worker $worker, ToolRegistry $registry): void
    {
        $options = ExecutorOptions::fromConfig($this->config, $this->servers);
        foreach ($registry->getAll() as $name => $tool) {
            if ($tool instanceof NativeTool) {
                continue;
            }
            $timeout = $options['tool_timeouts'][$name] ?? null;
            $worker->add($tool, options: array_filter([
                'requiresConfirmation' => $tool->getDefinition()->requiresConfirmation || self::requiresApproval($tool, $options['approvals']),
                'timeout' => $timeout,
            ], fn (mixed $option): bool => $option !== null));
        }
    }

    /** @param array{default: mixed, trusted_tools: list<string>, tools: array<string, string>, servers: array<string, mixed>} $rules */
    private static function requiresApproval(ToolInterface $tool, array $rules): bool
    {
        $entry = $tool instanceof MCPToolInterface ? $tool->getMCPServerConfig() : [];
        $policy = $rules['tools'][$tool->getName()]
            ?? $rules['servers'][(string) ($entry['server_label'] ?? '')]
            ?? self::readEntryPolicy($tool->getName(), $entry['require_approval'] ?? null)
            ?? $rules['default'];
        return match ($policy) {
            'auto', 'never' => false,
            'trusted-only' => !in_array($tool->getName(), $rules['trusted_tools'], true),
            'always-ask', 'always', 'prompt' => true,
            default => throw ConfigReader::invalid('approvals', "must set the policy of {$tool->getName()} to auto, always-ask or trusted-only", $policy),
        };
    }

    /**
     * Returns the policy that a server's entry sets for a tool; null if the entry sets none. With
     * lists of tools, a tool that only the list `never` contains needs no approval, and every other
     * tool needs approval.
     */
    private static function readEntryPolicy(string $tool, mixed $setting): mixed
    {
        if (!is_array($setting)) {
            return $setting;
        }
        $isListed = fn (string $listName): bool => in_array($tool, (array) ($setting[$listName]['tool_names'] ?? []), true);
        return $isListed('never') && !$isListed('always') ? 'never' : 'always';
    }
}
