<?php

declare(strict_types=1);

namespace Pillion\Fallback\Http;

/**
 * A response of the sidecar.
 *
 * @internal
 */
final class Response
{
    /** Maximum length of a response body, in bytes. */
    public const MAX_BODY_BYTES = 64 * 1024 * 1024;

    public function __construct(public readonly int $status, public readonly string $body)
    {
    }
}
