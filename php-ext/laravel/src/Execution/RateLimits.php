<?php

declare(strict_types=1);

namespace Pillion\Laravel\Execution;

use Illuminate\Cache\RateLimiter;
use Pillion\ToolCall;
use Pillion\ToolInterface;
use Pillion\MCPToolInterface;
use Pillion\ToolResult;

/**
 * The limits of `pillion.limits.rate_limits`, and the cooldowns of definitions. They are kept in
 * the application's rate limiter, so that they count for all workers, where those of an executor
 * would begin anew with each request.
 */
final class RateLimits
{
    private const SECONDS = ['per_minute' => 60, 'per_hour' => 3600, 'per_day' => 86400];

    /** @param array<string, mixed> $limits `every_tool`, `tools`, `servers` */
    public function __construct(
        private readonly RateLimiter $limiter,
        private readonly array $limits,
        private readonly ?string $tenant,
    ) {
    }

    /** Counts a call. A result is the refusal; null lets it through. */
    public function refuse(ToolCall $call, ?ToolInterface $tool, ?string $user): ?ToolResult
    {
        $windows = $this->windows($call->name, $tool);
        $keys = [];
        foreach ($windows as $window => $most) {
            $key = 'pillion:' . hash('sha256', implode("\0", [$window, $this->tenant ?? '', $user ?? '']));
            if ($this->limiter->tooManyAttempts($key, $most)) {
                return self::refusal($call, $window, $this->limiter->availableIn($key));
            }
            $keys[$window] = $key;
        }
        foreach ($keys as $window => $key) {
            $this->limiter->hit($key, (int) substr($window, (int) strrpos($window, ':') + 1));
        }
        return null;
    }

    /** @return array<string, int> how many calls each window takes; the name ends in its seconds */
    private function windows(string $name, ?ToolInterface $tool): array
    {
        $server = $tool instanceof MCPToolInterface ? ($tool->getMCPServerConfig()['server_label'] ?? null) : null;
        $rules = [
            "every_tool:$name" => $this->limits['every_tool'] ?? [],
            "tool:$name" => $this->limits['tools'][$name] ?? [],
            "server:$server" => $server === null ? [] : ($this->limits['servers'][$server] ?? []),
        ];
        $windows = [];
        foreach ($rules as $rule => $limits) {
            foreach (self::SECONDS as $key => $seconds) {
                if (isset($limits[$key])) {
                    $windows["$rule:$seconds"] = (int) $limits[$key];
                }
            }
        }
        $cooldown = (int) ceil($tool?->getDefinition()->cooldownSeconds ?? 0);
        return $cooldown > 0 ? $windows + ["cooldown:$name:$cooldown" => 1] : $windows;
    }

    private static function refusal(ToolCall $call, string $window, int $seconds): ToolResult
    {
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
