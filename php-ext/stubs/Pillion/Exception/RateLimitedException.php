<?php

namespace Pillion\Exception;

/** A rate limit of the sidecar or of the MCP server was exceeded. */
class RateLimitedException extends PillionException
{
    public string $errorCode = 'rate_limited';
    /** Seconds to wait before a retry, if known. */
    public ?float $retryAfter = null;
}
