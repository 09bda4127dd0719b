<?php

declare(strict_types=1);

namespace Pillion\Fallback;

use Pillion\Exception\PillionException;

/**
 * A request that the sidecar refused before any of its calls ran.
 *
 * @internal
 */
final class RefusedRequest
{
    public function __construct(public readonly PillionException $failure, public readonly bool $isTooLarge)
    {
    }
}
