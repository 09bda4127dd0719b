<?php

declare(strict_types=1);

namespace Pillion\Fallback\Http;

use Pillion\CancellationToken;
use Pillion\Fallback\Failure;

/**
 * The end of a call by the clock, whatever the system's own limits count.
 *
 * @internal
 */
final class Deadline
{
    /** A wait looks up so often, so that signal handlers run. */
    private const SLICE = 0.1;

    private readonly float $end;

    public function __construct(public readonly float $seconds, private readonly ?CancellationToken $cancellation = null)
    {
        $this->end = self::now() + $seconds;
    }

    /** @throws \Pillion\Exception\CancelledException when the call's token was cancelled */
    public function isOver(): bool
    {
        if ($this->cancellation?->isCancelled()) {
            throw Failure::cancelled($this->cancellation);
        }
        return self::now() >= $this->end;
    }

    /** How long to wait now: the rest of the time, but no longer than a slice. In seconds. */
    public function slice(): float
    {
        return max(0.0, min(self::SLICE, $this->end - self::now()));
    }

    /** Seconds on a clock that nobody sets. */
    public static function now(): float
    {
        return hrtime(true) / 1e9;
    }
}
