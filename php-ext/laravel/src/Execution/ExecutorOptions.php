<?php

declare(strict_types=1);

namespace Pillion\Laravel\Execution;

use Illuminate\Contracts\Config\Repository;
use Pillion\Exception\InvalidInputException;
use Pillion\Laravel\ConfigReader;
use Pillion\Laravel\Servers\ServerDirectory;

/** Reads the executor options from the configuration. */
final class ExecutorOptions
{
    private const LIMITS = ['timeout', 'tool_timeouts', 'max_concurrent', 'max_concurrent_local', 'max_concurrent_total', 'server_concurrency', 'tool_concurrency', 'queue_timeout', 'max_output_bytes'];

    /**
     * Calls `$make` with the options of the configuration, overridden by the application's own options.
     *
     * @template T
     *
     * @param array<string, mixed>              $overrides
     * @param array<string, mixed>              $configured the result of {@see fromConfig()}
     * @param \Closure(array<string, mixed>): T $make
     *
     * @return T
     *
     * @throws InvalidInputException naming the key of config/pillion.php, or the option
     */
    public static function apply(array $overrides, array $configured, \Closure $make): mixed
    {
        foreach (array_keys(array_diff_key($overrides, ['approve' => null, 'before' => null]), null, true) as $name) {
            throw new InvalidInputException("Invalid executor option '$name': it must not be null");
        }
        try {
            return $make($overrides + $configured);
        } catch (InvalidInputException $e) {
            $namesOption = preg_match("/^Invalid executor option '(([^.']+)[^']*)': (.*)/s", $e->getMessage(), $matches) === 1;
            if (!$namesOption || isset($overrides[$matches[2]])) {
                throw $e;
            }
            $key = match (true) {
                $matches[1] === 'approvals.default' => 'approvals.policy',
                $matches[2] === 'approvals' => $matches[1],
                default => "limits.$matches[1]",
            };
            throw new InvalidInputException("pillion.$key: $matches[3]", 0, $e);
        }
    }

    /** @return array<string, mixed> */
    public static function fromConfig(Repository $config, ServerDirectory $servers): array
    {
        $limits = ConfigReader::readArray($config, 'limits');
        $options = ConfigReader::toNumbers(array_intersect_key($limits, array_flip(self::LIMITS)));
        $options['approvals'] = [
            'default' => ConfigReader::read($config, 'approvals.policy', 'auto'),
            'trusted_tools' => array_values(ConfigReader::readStrings($config, 'approvals.trusted_tools')),
            'tools' => ConfigReader::readStrings($config, 'approvals.tools'),
            'servers' => self::serverPolicies($servers),
        ];
        return $options;
    }

    /**
     * Returns the policies of the configured servers. A tool class carries its own entry, whose policy
     * applies to that tool only. The policy of a skipped entry is unknown: tools of this label that reach
     * the registry in another way need approval.
     *
     * @return array<string, string>
     */
    private static function serverPolicies(ServerDirectory $servers): array
    {
        $policies = [];
        $all = $servers->all();
        foreach ($servers->labelsOfSkipped($all) as $label) {
            $policies[$label] = 'always';
        }
        foreach ($all as $server) {
            // If two entries have the same label, the entry that requires approval applies.
            if ($server->requireApproval !== 'never') {
                $policies[$server->label()] = $server->requireApproval;
            }
        }
        return $policies;
    }
}
