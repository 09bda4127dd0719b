<?php

declare(strict_types=1);

namespace Pillion;

/**
 * Cancels the calls that received this token and notifies the server. A callback, a signal handler or a
 * destructor can cancel the token.
 */
final class CancellationToken
{
    /** The reason for the cancellation; null until the token is cancelled. */
    private ?string $reason = null;

    public function __construct()
    {
    }

    /**
     * Cancels the calls that received this token. If the method is called several times, the first
     * reason stays and appears in the exception message.
     */
    public function cancel(?string $reason = null): void
    {
        $this->reason ??= $reason ?? '';
    }

    public function isCancelled(): bool
    {
        return $this->reason !== null;
    }
}
