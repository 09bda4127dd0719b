<?php

declare(strict_types=1);

namespace Pillion\Worker;

use Pillion\Fallback\Failure;

/**
 * How long a worker serves.
 *
 * @internal
 */
final class Limits
{
    public int $calls = 0;
    /** What somebody wants, whatever the limits are. */
    public ?StopReason $asked = null;
    private readonly ?float $end;

    /** @throws \Pillion\Exception\InvalidInputException */
    public function __construct(
        private readonly ?int $maxCalls,
        ?float $maxSeconds,
        private readonly ?int $maxMemory,
    ) {
        foreach (['maxCalls' => $maxCalls, 'maxSeconds' => $maxSeconds, 'maxMemory' => $maxMemory] as $name => $limit) {
            // By name: PHP's JIT has taken NAN for above zero.
            if ($limit !== null && (is_nan((float) $limit) || $limit <= 0)) {
                throw Failure::invalidInput("$name must be above zero, or null for no limit");
            }
        }
        $this->end = $maxSeconds === null ? null : self::now() + $maxSeconds;
    }

    public function reached(): ?StopReason
    {
        return $this->asked ?? match (true) {
            $this->maxCalls !== null && $this->calls >= $this->maxCalls => StopReason::Calls,
            $this->end !== null && self::now() >= $this->end => StopReason::Time,
            $this->maxMemory !== null && $this->calls > 0 && memory_get_usage(true) >= $this->maxMemory => StopReason::Memory,
            default => null,
        };
    }

    /** As many seconds as may be waited before {@see reached()} is to be asked again. */
    public function wait(float $most): float
    {
        return $this->end === null ? $most : max(0.0, min($most, $this->end - self::now()));
    }

    /** In seconds, of a clock that nobody sets. */
    public static function now(): float
    {
        return hrtime(true) / 1e9;
    }
}
