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
    private const LIMIT_OPTIONS = ['timeout', 'tool_timeouts', 'max_concurrent', 'max_concurrent_local', 'max_concurrent_total', 'server_concurrency', 'tool_concurrency', 'queue_timeout', 'max_output_bytes'];

    /**
     * Calls `$useOptions` with the executor options from config/pillion.php, overridden by the
     * application's own options.
     *
     * @template T
     *
     * @param array<string, mixed>              $overrides
     * @param array<string, mixed>              $configuredOptions the result of {@see fromConfig()}
     * @param \Closure(array<string, mixed>): T $useOptions
     *
     * @return T
     *
     * @throws InvalidInputException naming the key of config/pillion.php, or the option
     */
    public static function apply(array $overrides, array $configuredOptions, \Closure $useOptions): mixed
    {
        foreach (array_keys(array_diff_key($overrides, ['approve' => null, 'before' => null]), null, true) as $name) {
            throw new InvalidInputException("Invalid executor option '$name': it must not be null");
        }
        try {
            return $useOptions($overrides + $configuredOptions);
        } catch (InvalidInputException $exception) {
            $isOptionError = preg_match("/^Invalid executor option '(([^.']+)[^']*)': (.*)/s", $exception->getMessage(), $matches) === 1;
            if (!$isOptionError || isset($overrides[$matches[2]])) {
                throw $exception;
            }
            $key = match (true) {
                $matches[1] === 'approvals.default' => 'approvals.policy',
                $matches[2] === 'approvals' => $matches[1],
                default => "limits.$matches[1]",
            };
            throw new InvalidInputException("pillion.$key: $matches[3]", 0, $exception);
        }
    }

    /** @return array<string, mixed> */
    public static function fromConfig(Repository $config, ServerDirectory $servers): array
    {
        $limits = ConfigReader::readArray($config, 'limits');
        $options = ConfigReader::toNumbers(array_intersect_key($limits, array_flip(self::LIMIT_OPTIONS)));
        $options['approvals'] = [
            'default' => ConfigReader::read($config, 'approvals.policy', 'auto'),
            'trusted_tools' => array_values(ConfigReader::readStrings($config, 'approvals.trusted_tools')),
            'tools' => ConfigReader::readStrings($config, 'approvals.tools'),
            'servers' => self::serverPolicies($servers),
        ];
        return $options;
    }

    /**
     * Returns the approval policies of the configured servers, by label. A tool class reads the
     * policy from its own server entry. All tools with the label of a skipped entry need approval,
     * because the entry's policy is unknown.
     *
     * @return array<string, string>
     */
    private static function serverPolicies(ServerDirectory $servers): array
    {
        $policies = [];
        $validServers = $servers->all();
        foreach ($servers->skippedLabels($validServers) as $label) {
            $policies[$label] = 'always';
        }
        foreach ($validServers as $server) {
            // If two entries have the same label, approval is required if either entry requires it.
            if ($server->requireApproval !== 'never') {
                $policies[$server->label()] = $server->requireApproval;
            }
        }
        return $policies;
    }
}
