<?php

declare(strict_types=1);

namespace Pillion\Fallback;

use Pillion\Exception\PillionException;

/**
 * A request with tool calls that the sidecar rejected before any of the calls ran, or to which the
 * sidecar responded with an error.
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

    /** Returns whether the sidecar might accept a request with fewer calls. */
    public function mayHaveTooManyCalls(): bool
    {
        return $this->httpStatus === 400 || $this->isTooLarge();
    }
}
