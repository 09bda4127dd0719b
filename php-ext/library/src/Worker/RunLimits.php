<?php

declare(strict_types=1);

namespace Pillion\Worker;

use Pillion\Fallback\Failure;
use Pillion\Fallback\Http\Deadline;

/**
 * The limits after which a worker stops.
 *
 * @internal
 */
final class RunLimits
{
    public int $calls = 0;
    /** A requested stop, independent of the limits. */
    public ?StopReason $requestedStop = null;
    private readonly ?float $endTime;

    /** @throws \Pillion\Exception\InvalidInputException */
    public function __construct(
        private readonly ?int $maxCalls,
        ?float $maxSeconds,
        private readonly ?int $maxMemory,
        private readonly SignalHandlers $signals,
    ) {
        foreach (['maxCalls' => $maxCalls, 'maxSeconds' => $maxSeconds, 'maxMemory' => $maxMemory] as $name => $limit) {
            // NaN is checked explicitly, because PHP's JIT has evaluated `NAN <= 0` incorrectly.
            if ($limit !== null && (is_nan((float) $limit) || $limit <= 0)) {
                throw Failure::invalidInput("$name must be above zero, or null for no limit");
            }
        }
        $this->endTime = $maxSeconds === null ? null : Deadline::now() + $maxSeconds;
    }

    public function reachedLimit(): ?StopReason
    {
        return $this->requestedStop ?? match (true) {
            $this->signals->received() => StopReason::Signal,
            $this->maxCalls !== null && $this->calls >= $this->maxCalls => StopReason::Calls,
            $this->endTime !== null && Deadline::now() >= $this->endTime => StopReason::Time,
            $this->maxMemory !== null && $this->calls > 0 && memory_get_usage(true) >= $this->maxMemory => StopReason::Memory,
            default => null,
        };
    }

    /**
     * Returns how long the worker may wait before {@see reachedLimit()} must be checked again, in seconds, at most
     * `$upTo`.
     */
    public function cappedWait(float $upTo): float
    {
        return $this->endTime === null ? $upTo : max(0.0, min($upTo, $this->endTime - Deadline::now()));
    }
}
