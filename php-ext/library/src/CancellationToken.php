<?php

declare(strict_types=1);

namespace Pillion;

/**
 * Ends calls that it was given to, from a callback, a signal handler or a destructor. The
 * server is told.
 */
final class CancellationToken
{
    /** Null until it is cancelled. */
    private ?string $reason = null;

    public function __construct()
    {
    }

    /** The first reason counts; it stands in the message of the exception. */
    public function cancel(?string $reason = null): void
    {
        $this->reason ??= $reason ?? '';
    }

    public function isCancelled(): bool
    {
        return $this->reason !== null;
    }
}
