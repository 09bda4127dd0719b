<?php

declare(strict_types=1);

namespace Pillion\Fallback\Executor;

use Pillion\Fallback\Http\Deadline;
use Pillion\Fallback\Registry\ToolEntry;

/**
 * Enforces cooldowns and rate limits per user. Limits use sliding windows: 10 per minute means at most 10 in
 * any 60 seconds.
 *
 * @internal
 */
final class RateLimiter
{
    private const WINDOW_SECONDS = ['per_minute' => 60, 'per_hour' => 3600, 'per_day' => 86400];

    /** Number of admitted calls after which expired entries are removed. */
    private const SWEEP_EVERY = 1024;

    /** @var array<string, array{times: list<float>, horizon: float}> the times of admitted calls, oldest first */
    private array $admitted = [];
    private int $admissions = 0;

    public function __construct(private readonly ExecutorOptions $options)
    {
    }

    /**
     * Admits and counts a call. Rejected calls are not counted.
     *
     * @throws ToolFailure with the time to wait in `retry_after`
     */
    public function admit(ToolEntry $entry, ?string $user): void
    {
        $name = $entry->definition->name;
        $cooldown = $entry->definition->cooldownSeconds;
        $limits = $this->options->rateLimits;
        $checks = [];
        $windows = $limits['tools'][$name] ?? $limits['every_tool'];
        if ($cooldown > 0 || $windows !== []) {
            $checks["$user\0tool\0$name"] = [$windows, $cooldown];
        }
        $serverWindows = $entry->origin === null ? [] : $limits['servers'][$entry->origin->label] ?? [];
        if ($serverWindows !== []) {
            $checks["$user\0server\0{$entry->origin->label}"] = [$serverWindows, 0.0];
        }
        $now = Deadline::now();
        foreach ($checks as $key => [$windows, $cooldown]) {
            $this->check($this->times($key, $now), $windows, $cooldown, $name, $now);
        }
        foreach ($checks as $key => [$windows, $cooldown]) {
            $lengths = array_intersect_key(self::WINDOW_SECONDS, $windows);
            $this->admitted[$key] = ['times' => [...$this->times($key, $now), $now], 'horizon' => (float) max(0, $cooldown, ...array_values($lengths))];
        }
        if ($checks !== [] && ++$this->admissions % self::SWEEP_EVERY === 0) {
            $this->admitted = array_filter(
                $this->admitted,
                fn (string $key): bool => $this->times($key, $now) !== [],
                ARRAY_FILTER_USE_KEY,
            );
        }
    }

    /** @return list<float> the times that are still inside a window */
    private function times(string $key, float $now): array
    {
        $entry = $this->admitted[$key] ?? ['times' => [], 'horizon' => 0.0];
        return array_values(array_filter($entry['times'], static fn (float $time): bool => $time + $entry['horizon'] > $now));
    }

    /**
     * @param list<float>        $times
     * @param array<string, int> $windows
     */
    private function check(array $times, array $windows, float $cooldown, string $tool, float $now): void
    {
        $last = $times === [] ? null : end($times);
        if ($last !== null && $last + $cooldown > $now) {
            throw self::limited("Tool '$tool' is cooling down.", $last + $cooldown - $now);
        }
        foreach (self::WINDOW_SECONDS as $window => $length) {
            $limit = $windows[$window] ?? null;
            if ($limit === null) {
                continue;
            }
            // The call that must leave the window before another call fits.
            $oldestCounted = $limit === 0 ? $now : $times[count($times) - $limit] ?? null;
            if ($oldestCounted !== null && $oldestCounted + $length > $now) {
                throw self::limited('Rate limit exceeded (' . strtr($window, '_', '-') . ').', $oldestCounted + $length - $now);
            }
        }
    }

    private static function limited(string $problem, float $wait): ToolFailure
    {
        $seconds = (int) ceil($wait);
        $unit = $seconds === 1 ? 'second' : 'seconds';
        return new ToolFailure('rate_limited', "$problem Retry after $seconds $unit.", metadata: ['retry_after' => $seconds]);
    }
}
