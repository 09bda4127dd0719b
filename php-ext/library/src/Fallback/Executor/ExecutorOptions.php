<?php

declare(strict_types=1);

namespace Pillion\Fallback\Executor;

use Pillion\Exception\InvalidInputException;
use Pillion\Fallback\Argument;
use Pillion\Fallback\Failure;
use Pillion\Fallback\Json;

/**
 * The options of an executor. Times are in seconds.
 *
 * @internal
 */
final class ExecutorOptions
{
    private const NAMES = ['timeout', 'tool_timeouts', 'max_concurrent', 'max_concurrent_local', 'max_concurrent_total', 'server_concurrency', 'tool_concurrency', 'queue_timeout', 'max_output_bytes', 'enable_caching', 'rate_limits', 'approvals', 'approve', 'before'];
    private const WINDOWS = ['per_minute', 'per_hour', 'per_day'];

    public readonly float $timeout;
    /** @var array<string, float> */
    private readonly array $toolTimeouts;
    public readonly int $maxConcurrentTotal;
    private readonly int $maxConcurrent;
    private readonly int $maxConcurrentLocal;
    /** @var array<string, int> */
    private readonly array $serverConcurrency;
    /** @var array<string, int> */
    private readonly array $toolConcurrency;
    public readonly int $maxOutputBytes;
    /** @var array{every_tool: array<string, int>, tools: array<string, array<string, int>>, servers: array<string, array<string, int>>} */
    public readonly array $rateLimits;
    public readonly ApprovalCheck $approvals;
    public readonly BeforeHook $beforeHook;

    /**
     * @param array<string, mixed> $options
     *
     * @throws InvalidInputException that names the key
     */
    public function __construct(array $options)
    {
        Json::encode(array_diff_key($options, ['approve' => null, 'before' => null]), 'argument $options');
        self::known('', $options, self::NAMES);
        $this->timeout = self::seconds('timeout', $options['timeout'] ?? 30.0);
        $toolTimeouts = [];
        foreach (self::map('tool_timeouts', $options['tool_timeouts'] ?? []) as $tool => $seconds) {
            $toolTimeouts[$tool] = self::seconds("tool_timeouts.$tool", $seconds);
        }
        $this->toolTimeouts = $toolTimeouts;
        $this->maxConcurrent = self::count('max_concurrent', $options['max_concurrent'] ?? 5, 1);
        $this->maxConcurrentLocal = self::count('max_concurrent_local', $options['max_concurrent_local'] ?? $this->maxConcurrent, 1);
        $this->maxConcurrentTotal = self::count('max_concurrent_total', $options['max_concurrent_total'] ?? max(20, 4 * min($this->maxConcurrent, 1_000_000)), 1);
        $serverConcurrency = [];
        foreach (self::map('server_concurrency', $options['server_concurrency'] ?? []) as $server => $limit) {
            $serverConcurrency[$server] = self::count("server_concurrency.$server", $limit, 1);
        }
        $this->serverConcurrency = $serverConcurrency;
        $toolConcurrency = [];
        foreach (self::map('tool_concurrency', $options['tool_concurrency'] ?? []) as $tool => $limit) {
            $toolConcurrency[$tool] = self::count("tool_concurrency.$tool", $limit, 1);
        }
        $this->toolConcurrency = $toolConcurrency;
        // There is no queue here: the sidecar has one.
        self::seconds('queue_timeout', $options['queue_timeout'] ?? 30.0);
        $this->maxOutputBytes = self::count('max_output_bytes', $options['max_output_bytes'] ?? 16 * 1024 * 1024, 0);
        if (!is_bool($options['enable_caching'] ?? true)) {
            throw self::invalid('enable_caching', 'it must be true or false');
        }
        if (($options['enable_caching'] ?? true) === false) {
            throw self::invalid('enable_caching', 'the configuration of the sidecar controls the cache of results');
        }
        $this->rateLimits = self::limits(self::map('rate_limits', $options['rate_limits'] ?? []));
        $rules = self::approvalRules(self::map('approvals', $options['approvals'] ?? []));
        $this->approvals = new ApprovalCheck($rules, self::callable('approve', $options));
        $this->beforeHook = new BeforeHook(self::callable('before', $options));
    }

    /** Returns the maximum number of concurrent calls of a tool. */
    public function concurrencyOf(string $tool): int
    {
        return $this->toolConcurrency[$tool] ?? PHP_INT_MAX;
    }

    /** Returns the maximum number of concurrent calls of a server's tools; null means the tools of no server. */
    public function concurrencyOfServer(?string $server): int
    {
        return $server === null ? $this->maxConcurrentLocal : $this->serverConcurrency[$server] ?? $this->maxConcurrent;
    }

    public function timeoutOf(string $tool): float
    {
        return $this->toolTimeouts[$tool] ?? $this->timeout;
    }

    /**
     * @param array<array-key, mixed> $limits
     *
     * @return array{every_tool: array<string, int>, tools: array<string, array<string, int>>, servers: array<string, array<string, int>>}
     */
    private static function limits(array $limits): array
    {
        self::known('rate_limits.', $limits, ['every_tool', 'tools', 'servers']);
        $byName = static function (string $key) use ($limits): array {
            $windows = [];
            foreach (self::map("rate_limits.$key", $limits[$key] ?? []) as $name => $limitsOfName) {
                $windows[$name] = self::windows("rate_limits.$key.$name", $limitsOfName);
            }
            return $windows;
        };
        return [
            'every_tool' => self::windows('rate_limits.every_tool', $limits['every_tool'] ?? []),
            'tools' => $byName('tools'),
            'servers' => $byName('servers'),
        ];
    }

    /** @param array<array-key, mixed> $options */
    private static function approvalRules(array $options): ApprovalRules
    {
        self::known('approvals.', $options, ['default', 'trusted_tools', 'tools', 'servers']);
        $trusted = $options['trusted_tools'] ?? [];
        if (!is_array($trusted) || array_filter($trusted, is_string(...)) !== $trusted) {
            throw self::invalid('approvals.trusted_tools', 'it must be a list of names');
        }
        $policies = static function (string $key) use ($options): array {
            $policies = [];
            foreach (self::map("approvals.$key", $options[$key] ?? []) as $name => $policy) {
                $policies[$name] = self::policy("approvals.$key.$name", $policy);
            }
            return $policies;
        };
        $default = self::policy('approvals.default', $options['default'] ?? 'auto');
        return new ApprovalRules($default, array_values($trusted), $policies('tools'), $policies('servers'));
    }

    private static function policy(string $path, mixed $policy): string
    {
        $known = is_string($policy) ? ApprovalRules::POLICIES[$policy] ?? null : null;
        return $known ?? throw self::invalid($path, 'it must be auto, always-ask or trusted-only');
    }

    /** @param array<string, mixed> $options */
    private static function callable(string $name, array $options): ?\Closure
    {
        $callable = $options[$name] ?? null;
        if ($callable !== null && !is_callable($callable)) {
            throw self::invalid($name, 'it must be callable or null, ' . get_debug_type($callable) . ' given');
        }
        return $callable === null ? null : \Closure::fromCallable($callable);
    }

    /** @return array<string, int> */
    private static function windows(string $path, mixed $limits): array
    {
        $limits = self::map($path, $limits);
        self::known("$path.", $limits, self::WINDOWS);
        $windows = [];
        foreach (array_filter($limits, static fn (mixed $limit): bool => $limit !== null) as $name => $limit) {
            $windows[$name] = self::count("$path.$name", $limit, 0);
        }
        return $windows;
    }

    /** @return array<array-key, mixed> */
    private static function map(string $path, mixed $value): array
    {
        $isMap = is_array($value) && ($value === [] || !array_is_list($value));
        return $isMap ? $value : throw self::invalid($path, 'it must be an array with names as keys');
    }

    private static function seconds(string $path, mixed $value): float
    {
        if (!is_int($value) && !is_float($value)) {
            throw self::invalid($path, 'it must be a number of seconds');
        }
        return Argument::seconds($path, $value);
    }

    private static function count(string $path, mixed $value, int $minimum): int
    {
        $isCount = is_int($value) && $value >= $minimum;
        return $isCount ? $value : throw self::invalid($path, "it must be an integer of at least $minimum");
    }

    /**
     * @param array<array-key, mixed> $options
     * @param list<string>            $names
     */
    private static function known(string $path, array $options, array $names): void
    {
        foreach (array_keys($options) as $name) {
            if (!in_array($name, $names, true)) {
                throw self::invalid($path . $name, 'unknown field, expected one of ' . implode(', ', $names));
            }
        }
    }

    private static function invalid(string $path, string $reason): InvalidInputException
    {
        return Failure::invalidInput("Invalid executor option '$path': $reason");
    }
}
