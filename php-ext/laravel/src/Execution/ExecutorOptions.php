<?php

declare(strict_types=1);

namespace Pillion\Laravel\Execution;

use Illuminate\Contracts\Config\Repository;
use Pillion\Laravel\Servers\ServerDirectory;
use Pillion\ToolRegistry;

/** The options of an executor, of the configuration. */
final class ExecutorOptions
{
    private const LIMITS = ['timeout', 'tool_timeouts', 'max_concurrent', 'queue_timeout', 'max_output_bytes'];

    /** @return array<string, mixed> */
    public static function of(Repository $config, ServerDirectory $servers, ToolRegistry $registry): array
    {
        $limits = $config->get('pillion.limits', []);
        $options = array_intersect_key($limits, array_flip(self::LIMITS));
        $options['approvals'] = [
            'default' => $config->get('pillion.approvals.policy', 'auto'),
            'trusted_tools' => $config->get('pillion.approvals.trusted_tools', []),
            'tools' => $config->get('pillion.approvals.tools', []),
            'servers' => self::serverPolicies($servers, $registry),
        ];
        return $options;
    }

    /** @return array<string, string> of the configured servers, and of tools whose entry says so */
    private static function serverPolicies(ServerDirectory $servers, ToolRegistry $registry): array
    {
        $policies = [];
        // Of two entries with one label the one that asks counts.
        $add = function (?string $label, mixed $policy) use (&$policies): void {
            if ($label !== null && $label !== '' && $policy !== 'never') {
                $policies[$label] = $policy;
            }
        };
        foreach ($registry->getMCPTools() as $tool) {
            $entry = $tool->getMCPServerConfig();
            $add($entry['server_label'] ?? null, $entry['require_approval'] ?? 'never');
        }
        foreach ($servers->all() as $server) {
            $add($server->label(), $server->requireApproval);
        }
        return $policies;
    }
}
