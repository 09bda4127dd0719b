<?php

declare(strict_types=1);

namespace Pillion\Fallback;

use Pillion\Exception\PillionException;

/**
 * A request that the sidecar rejected before any of its calls ran, or answered with an error.
 *
 * @internal
 */
final class RejectedRequest
{
    public function __construct(public readonly PillionException $exception, private readonly int $httpStatus)
    {
    }

    public function isTooLarge(): bool
    {
        return $this->httpStatus === 413;
    }

    /** Returns whether fewer calls in one request might be accepted. */
    public function mayBeTooMany(): bool
    {
        return $this->httpStatus === 400 || $this->isTooLarge();
    }
}
