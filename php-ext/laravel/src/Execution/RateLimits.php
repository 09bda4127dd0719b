<?php

declare(strict_types=1);

namespace Pillion\Laravel\Execution;

use Illuminate\Cache\RateLimiter;
use Illuminate\Container\Container;
use Pillion\Exception\InvalidInputException;
use Pillion\Laravel\ConfigReader;
use Pillion\MCPToolInterface;
use Pillion\ToolCall;
use Pillion\ToolInterface;
use Pillion\ToolResult;

/**
 * Enforces `pillion.limits.rate_limits` and the cooldowns of tool definitions. The application's rate limiter
 * keeps the counts, so that the limits apply across all workers; the limits of an executor would start again
 * with each request.
 */
final class RateLimits
{
    private const SECONDS = ['per_minute' => 60, 'per_hour' => 3600, 'per_day' => 86400];

    /**
     * @param array<string, mixed> $limits `every_tool`, `tools`, `servers`
     *
     * @throws InvalidInputException naming the invalid key
     */
    public function __construct(
        private readonly RateLimiter $limiter,
        private readonly array $limits,
        private readonly ?string $tenant,
    ) {
        foreach ($limits as $key => $group) {
            $known = in_array($key, ['every_tool', 'tools', 'servers'], true);
            if (!$known || !is_array($group)) {
                throw self::invalid((string) $key, $known ? 'must be an array' : 'is unknown: expected every_tool, tools or servers');
            }
            foreach ($key === 'every_tool' ? ['' => $group] : $group as $name => $windows) {
                self::validate($name === '' ? $key : "$key.$name", $windows);
            }
        }
    }

    /** Returns the limits of config/pillion.php for the users of one tenant. */
    public static function ofTenant(Container $app, ?string $tenant): self
    {
        $limits = ConfigReader::readArray($app->make('config'), 'limits.rate_limits');
        return new self($app->make(RateLimiter::class), $limits, $tenant);
    }

    /**
     * Counts a call that is about to run. Returns null, or a result that rejects the call. The count after
     * adding the call decides, so that two workers cannot both take the last slot.
     */
    public function check(ToolCall $call, ToolInterface $tool, ?string $user): ?ToolResult
    {
        $windows = $this->windows($tool);
        $keys = [];
        foreach ($windows as $window => $maxCalls) {
            $keys[$window] = 'pillion:'
                . hash('sha256', implode("\0", [$window, $this->tenant ?? '', $user ?? '']));
            // A call that one window rejects does not count in the others.
            if ($this->limiter->tooManyAttempts($keys[$window], $maxCalls)) {
                return $this->rejection($call, $window, $keys[$window]);
            }
        }
        foreach ($keys as $window => $key) {
            $seconds = (int) substr($window, (int) strrpos($window, ':') + 1);
            if ($this->limiter->hit($key, $seconds) > $windows[$window]) {
                return $this->rejection($call, $window, $key);
            }
        }
        return null;
    }

    /** @return array<string, int> the maximum number of calls of each window; the name ends with the window's length in seconds */
    private function windows(ToolInterface $tool): array
    {
        // Use the tool's own name, so that an alias does not bypass its limits.
        $name = $tool->getName();
        $servers = $this->limits['servers'] ?? [];
        $hasServerLimits = $servers !== [] && $tool instanceof MCPToolInterface;
        $server = $hasServerLimits ? ($tool->getMCPServerConfig()['server_label'] ?? null) : null;
        $rules = [
            "every_tool:$name" => $this->limits['every_tool'] ?? [],
            "tool:$name" => $this->limits['tools'][$name] ?? [],
            "server:$server" => $server === null ? [] : ($servers[$server] ?? []),
        ];
        $windows = [];
        foreach ($rules as $rule => $limits) {
            foreach (self::SECONDS as $key => $seconds) {
                if (isset($limits[$key])) {
                    $windows["$rule:$seconds"] = (int) $limits[$key];
                }
            }
        }
        $cooldown = (int) ceil($tool->getDefinition()->cooldownSeconds);
        return $cooldown > 0 ? $windows + ["cooldown:$name:$cooldown" => 1] : $windows;
    }

    private static function validate(string $key, mixed $windows): void
    {
        if (!is_array($windows)) {
            throw self::invalid($key, 'must be an array');
        }
        foreach ($windows as $window => $maxCalls) {
            if (!isset(self::SECONDS[$window])) {
                throw self::invalid("$key.$window", 'is unknown: expected one of ' . implode(', ', array_keys(self::SECONDS)));
            }
            if ($maxCalls !== null && filter_var($maxCalls, FILTER_VALIDATE_INT, ['options' => ['min_range' => 0]]) === false) {
                throw self::invalid("$key.$window", 'must be a number of calls, at least 0');
            }
        }
    }

    private static function invalid(string $key, string $problem): InvalidInputException
    {
        return new InvalidInputException("pillion.limits.rate_limits.$key $problem");
    }

    private function rejection(ToolCall $call, string $window, string $key): ToolResult
    {
        $seconds = max(1, $this->limiter->availableIn($key));
        $state = str_starts_with($window, 'cooldown:') ? 'is cooling down' : 'was called too often';
        $error = "Tool '$call->name' $state: try again in $seconds s";
        return ToolResult::failure($error, 'rate_limited', $call->id, $call->name, metadata: ['retry_after' => $seconds]);
    }
}
