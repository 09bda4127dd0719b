<?php

declare(strict_types=1);

namespace Pillion\Laravel\Testing;

/** The exception for a test that called a tool without a fake after `preventStrayCalls()`. */
final class StrayToolCallException extends \RuntimeException
{
    public static function forTool(string $tool): self
    {
        return new self("Attempted to call tool '$tool' without a fake. Add it to Pillion::fake([...]).");
    }

    public static function forTarget(string $target): self
    {
        return new self("Attempted to reach $target, which has no fake.");
    }

    public static function forServer(string $server, string $method): self
    {
        return self::forTarget("MCP server '$server' with $method()");
    }
}
