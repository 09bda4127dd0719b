<?php

declare(strict_types=1);

namespace Pillion\Laravel\Execution;

use Illuminate\Cache\RateLimiter;
use Pillion\Exception\InvalidInputException;
use Pillion\ToolCall;
use Pillion\ToolInterface;
use Pillion\MCPToolInterface;
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
        foreach ($limits as $key => $of) {
            $known = in_array($key, ['every_tool', 'tools', 'servers'], true);
            if (!$known || !is_array($of)) {
                throw self::wrong((string) $key, $known ? 'is no array' : 'is none of every_tool, tools and servers');
            }
            foreach ($key === 'every_tool' ? ['' => $of] : $of as $name => $windows) {
                self::check($name === '' ? $key : "$key.$name", $windows);
            }
        }
    }

    /**
     * Counts a call that is about to run. Returns null, or a result that rejects the call. The count after
     * adding the call decides, so that two workers cannot both take the last slot.
     */
    public function refuse(ToolCall $call, ToolInterface $tool, ?string $user): ?ToolResult
    {
        $windows = $this->windows($tool);
        $keys = [];
        foreach ($windows as $window => $most) {
            $keys[$window] = 'pillion:'
                . hash('sha256', implode("\0", [$window, $this->tenant ?? '', $user ?? '']));
            // A call that one window rejects does not count in the others.
            if ($this->limiter->tooManyAttempts($keys[$window], $most)) {
                return $this->refusal($call, $window, $keys[$window]);
            }
        }
        foreach ($keys as $window => $key) {
            $seconds = (int) substr($window, (int) strrpos($window, ':') + 1);
            if ($this->limiter->hit($key, $seconds) > $windows[$window]) {
                return $this->refusal($call, $window, $key);
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
        $ofServer = $servers !== [] && $tool instanceof MCPToolInterface;
        $server = $ofServer ? ($tool->getMCPServerConfig()['server_label'] ?? null) : null;
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

    private static function check(string $key, mixed $windows): void
    {
        if (!is_array($windows)) {
            throw self::wrong($key, 'is no array');
        }
        foreach ($windows as $window => $most) {
            if (!isset(self::SECONDS[$window])) {
                throw self::wrong("$key.$window", 'is none of ' . implode(', ', array_keys(self::SECONDS)));
            }
            if ($most !== null && filter_var($most, FILTER_VALIDATE_INT, ['options' => ['min_range' => 0]]) === false) {
                throw self::wrong("$key.$window", 'is no number of calls');
            }
        }
    }

    private static function wrong(string $key, string $why): InvalidInputException
    {
        return new InvalidInputException("pillion.limits.rate_limits.$key $why");
    }

    private function refusal(ToolCall $call, string $window, string $key): ToolResult
    {
        $seconds = max(1, $this->limiter->availableIn($key));
        $what = str_starts_with($window, 'cooldown:') ? 'cools down' : 'is called too often';
        return new ToolResult(
            toolCallId: $call->id,
            toolName: $call->name,
            result: null,
            success: false,
            error: "Tool '$call->name' $what: try again in $seconds s",
            errorCode: 'rate_limited',
            metadata: ['retry_after' => $seconds],
        );
    }
}
