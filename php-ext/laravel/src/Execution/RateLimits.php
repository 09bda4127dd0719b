<?php

declare(strict_types=1);

namespace Pillion\Laravel\Execution;

use Illuminate\Cache\RateLimiter;
use Illuminate\Container\Container;
use Pillion\Laravel\ConfigReader;
use Pillion\MCPToolInterface;
use Pillion\ToolCall;
use Pillion\ToolInterface;
use Pillion\ToolResult;

/**
 * Enforces `pillion.limits.rate_limits` and the cooldowns of tool definitions by the rules of the
 * executor. The application's rate limiter stores the counts, so that the limits apply across all
 * workers; an executor's own counts would start at zero in each request
 * (docs/adr/0037-laravel-counts-rate-limits.md).
 */
final class RateLimits
{
    private const WINDOW_SECONDS = ['per_minute' => 60, 'per_hour' => 3600, 'per_day' => 86400];
    private const COOLDOWN_LABEL = 'cooldown';

    /**
     * @param array<string, mixed> $limits `default`, `tools`, `servers`, as in config/pillion.php
     */
    public function __construct(
        private readonly RateLimiter $limiter,
        private readonly array $limits,
        private readonly ?string $tenant,
    ) {
    }

    /** Returns the limits of config/pillion.php for the users of one tenant. */
    public static function forTenant(Container $app, ?string $tenant): self
    {
        $limits = ConfigReader::readArray($app->make('config'), 'limits.rate_limits');
        return new self($app->make(RateLimiter::class), $limits, $tenant);
    }

    /**
     * Counts a call that is about to run. Returns null, or a result that rejects the call. The
     * count that includes the call is compared with the limit, so that two workers cannot both take
     * the last slot.
     */
    public function check(ToolCall $call, ToolInterface $tool, ?string $user): ?ToolResult
    {
        $windows = [];
        foreach ($this->findWindows($tool) as [$subject, $label, $seconds, $maxCalls]) {
            $key = 'pillion:' . hash('sha256', implode("\0", [$subject, $seconds, $this->tenant ?? '', $user ?? '']));
            // The limits of all time windows are checked before the call is counted, so that a call
            // that exceeds the limit of one window does not count in the other windows.
            if ($this->limiter->tooManyAttempts($key, $maxCalls)) {
                return $this->createRejection($call, $tool, $label, $key);
            }
            $windows[] = [$label, $seconds, $maxCalls, $key];
        }
        foreach ($windows as [$label, $seconds, $maxCalls, $key]) {
            if ($this->limiter->hit($key, $seconds) > $maxCalls) {
                return $this->createRejection($call, $tool, $label, $key);
            }
        }
        return null;
    }

    /**
     * Returns the limits that apply to a tool. The limits of a tool replace the default limits; the
     * limits of the tool's server apply as well.
     *
     * @return list<array{string, string, int, int}> the key of the limit, the window's name, its
     *                                               length in seconds, and the maximum number of
     *                                               calls
     */
    private function findWindows(ToolInterface $tool): array
    {
        // Limits are looked up by the tool's name and not by an alias, because calls through an
        // alias could otherwise bypass the limits.
        $name = $tool->getName();
        $servers = $this->limits['servers'] ?? [];
        $hasServerLimits = $servers !== [] && $tool instanceof MCPToolInterface;
        $server = $hasServerLimits ? ($tool->getMCPServerConfig()['server_label'] ?? null) : null;
        $limits = [
            "tool:$name" => $this->limits['tools'][$name] ?? $this->limits['default'] ?? [],
            "server:$server" => $server === null ? [] : ($servers[$server] ?? []),
        ];
        $cooldown = (int) ceil($tool->getDefinition()->cooldownSeconds);
        $windows = $cooldown > 0 ? [["cooldown:$name", self::COOLDOWN_LABEL, $cooldown, 1]] : [];
        foreach ($limits as $subject => $maxCallsByWindow) {
            foreach (self::WINDOW_SECONDS as $label => $seconds) {
                if (isset($maxCallsByWindow[$label])) {
                    $windows[] = [$subject, $label, $seconds, (int) $maxCallsByWindow[$label]];
                }
            }
        }
        return $windows;
    }

    private function createRejection(ToolCall $call, ToolInterface $tool, string $label, string $key): ToolResult
    {
        $seconds = max(1, $this->limiter->availableIn($key));
        $reason = $label === self::COOLDOWN_LABEL
            ? "Tool '{$tool->getName()}' is cooling down."
            : 'Rate limit exceeded (' . str_replace('_', '-', $label) . ').';
        $error = "$reason Retry after $seconds " . ($seconds === 1 ? 'second.' : 'seconds.');
        return ToolResult::failure($error, 'rate_limited', $call->id, $call->name, metadata: ['retry_after' => $seconds]);
    }
}
