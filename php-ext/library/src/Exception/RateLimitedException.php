<?php

declare(strict_types=1);

namespace Pillion\Exception;

/** A limit of the sidecar or of the MCP server. */
class RateLimitedException extends PillionException
{
    public string $errorCode = 'rate_limited';
    /** Seconds until a new try makes sense, where it is known. */
    public ?float $retryAfter = null;
}
