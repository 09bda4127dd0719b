<?php

declare(strict_types=1);

namespace Pillion\Fallback\Http;

/**
 * The sidecar's answer.
 *
 * @internal
 */
final class Response
{
    /** The longest body that is read, in bytes. */
    public const MOST_BYTES = 64 * 1024 * 1024;

    public function __construct(public readonly int $status, public readonly string $body)
    {
    }
}
