<?php

namespace Pillion;

/**
 * Cancels the calls that received this token and notifies the server. A callback, a signal handler or a
 * destructor can cancel the token.
 */
final class CancellationToken
{
    public function __construct()
    {
    }

    /** Cancels the calls. Only the first reason counts; it appears in the exception message. */
    public function cancel(?string $reason = null): void
    {
    }

    public function isCancelled(): bool
    {
    }
}
