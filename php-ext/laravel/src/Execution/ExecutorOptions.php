<?php

declare(strict_types=1);

namespace Pillion\Laravel\Execution;

use Illuminate\Contracts\Config\Repository;
use Pillion\Laravel\Servers\ServerDirectory;

/** The options of an executor, of the configuration. */
final class ExecutorOptions
{
    private const LIMITS = ['timeout', 'tool_timeouts', 'max_concurrent', 'queue_timeout', 'max_output_bytes'];

    /** @return array<string, mixed> */
    public static function of(Repository $config, ServerDirectory $servers): array
    {
        $limits = $config->get('pillion.limits', []);
        $options = array_intersect_key($limits, array_flip(self::LIMITS));
        $policies = [];
        foreach ($servers->all() as $server) {
            if ($server->requireApproval !== 'never') {
                $policies[$server->label()] = $server->requireApproval;
            }
        }
        $options['approvals'] = [
            'default' => $config->get('pillion.approvals.policy', 'auto'),
            'trusted_tools' => $config->get('pillion.approvals.trusted_tools', []),
            'tools' => $config->get('pillion.approvals.tools', []),
            'servers' => $policies,
        ];
        return $options;
    }
}
