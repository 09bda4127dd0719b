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

    /** The keys of `limits` that other classes read. */
    private const OTHER_LIMITS = ['max_rounds', 'max_calls', 'rate_limits'];

    private const APPROVALS = ['policy', 'trusted_tools', 'tools', 'driver', 'store', 'connection', 'table', 'expires_after', 'max_pending', 'max_pending_per_user'];

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
        ConfigReader::checkKeys($config, 'limits', [...self::LIMITS, ...self::OTHER_LIMITS]);
        ConfigReader::checkKeys($config, 'approvals', self::APPROVALS);
        $limits = ConfigReader::readArray($config, 'limits');
        $options = ConfigReader::toNumbers(array_intersect_key($limits, array_flip(self::LIMITS)));
        $options['approvals'] = [
            'default' => self::policy($config),
            'trusted_tools' => array_values(ConfigReader::readStrings($config, 'approvals.trusted_tools')),
            'tools' => ConfigReader::readStrings($config, 'approvals.tools'),
            'servers' => self::serverPolicies($servers),
        ];
        return $options;
    }

    /** Returns the default policy: `auto` only if none is set, and not if its variable has no value. */
    private static function policy(Repository $config): string
    {
        $policy = $config->has('pillion.approvals.policy') ? $config->get('pillion.approvals.policy') : 'auto';
        return is_string($policy)
            ? $policy
            : throw ConfigReader::invalid('approvals.policy', 'must be auto, always-ask or trusted-only', $policy);
    }

    /**
     * Returns the policies of the configured servers. A tool class carries its own entry, whose policy
     * applies to that tool only.
     *
     * @return array<string, string>
     */
    private static function serverPolicies(ServerDirectory $servers): array
    {
        $policies = [];
        foreach ($servers->all() as $server) {
            // If two entries have the same label, the entry that requires approval applies.
            if ($server->requireApproval !== 'never') {
                $policies[$server->label()] = $server->requireApproval;
            }
        }
        return $policies;
    }
}
