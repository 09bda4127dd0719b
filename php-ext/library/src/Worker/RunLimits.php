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
    /** The number of calls that have ended. */
    public int $callCount = 0;
    /** The reason for a requested stop, such as a signal; null if no stop was requested. */
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

    /** Returns the reason why the worker must stop; null if the worker may continue. */
    public function reachedLimit(): ?StopReason
    {
        return $this->requestedStop ?? match (true) {
            $this->signals->hasReceivedSignal() => StopReason::Signal,
            $this->maxCalls !== null && $this->callCount >= $this->maxCalls => StopReason::Calls,
            $this->endTime !== null && Deadline::now() >= $this->endTime => StopReason::Time,
            $this->maxMemory !== null && $this->callCount > 0 && memory_get_usage(true) >= $this->maxMemory => StopReason::Memory,
            default => null,
        };
    }

    /**
     * Returns the time in seconds, at most `$seconds`, after which the worker must check {@see
     * reachedLimit()} again.
     */
    public function limitWait(float $seconds): float
    {
        return $this->endTime === null ? $seconds : max(0.0, min($seconds, $this->endTime - Deadline::now()));
    }
}
