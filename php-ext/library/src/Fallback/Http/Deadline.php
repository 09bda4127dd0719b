<?php

declare(strict_types=1);

namespace Pillion\Fallback\Http;

use Pillion\CancellationToken;
use Pillion\Fallback\Failure;

/**
 * The deadline of a call, independent of the timeouts of curl or PHP streams.
 *
 * @internal
 */
final class Deadline
{
    /** Maximum duration of one wait, in seconds. Signal handlers run between two waits. */
    private const MAX_WAIT_INTERVAL = 0.1;

    private readonly float $endTime;

    public function __construct(public readonly float $seconds, private readonly ?CancellationToken $cancellation = null)
    {
        $this->endTime = self::now() + $seconds;
    }

    /** @throws \Pillion\Exception\CancelledException when the call's token was cancelled */
    public function hasPassed(): bool
    {
        if ($this->cancellation?->isCancelled()) {
            throw Failure::cancelled($this->cancellation);
        }
        return self::now() >= $this->endTime;
    }

    /** Returns how long to wait now, in seconds: the remaining time, but at most `MAX_WAIT_INTERVAL`. */
    public function nextWaitSeconds(): float
    {
        return max(0.0, min(self::MAX_WAIT_INTERVAL, $this->endTime - self::now()));
    }

    /** Returns the time of a monotonic clock, in seconds. */
    public static function now(): float
    {
        return hrtime(true) / 1e9;
    }
}
