<?php

declare(strict_types=1);

namespace Pillion\Laravel\Testing;

/** A test called a tool without a fake after `preventStrayCalls()`. */
final class StrayToolCallException extends \RuntimeException
{
    public static function of(string $tool): self
    {
        return new self("Attempted to call tool '$tool' without a fake. Add it to Pillion::fake([...]).");
    }

    public static function reaching(string $target): self
    {
        return new self("Attempted to reach $target, which has no fake.");
    }

    public static function ofServer(string $server, string $method): self
    {
        return self::reaching("MCP server '$server' with $method()");
    }
}
