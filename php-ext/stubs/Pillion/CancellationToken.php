<?php

namespace Pillion;

/**
 * Ends calls that it was given to, from a callback, a signal handler or a destructor. The
 * server is told.
 */
final class CancellationToken
{
    public function __construct()
    {
    }

    /** The first reason counts; it stands in the message of the exception. */
    public function cancel(?string $reason = null): void
    {
    }

    public function isCancelled(): bool
    {
    }
}
