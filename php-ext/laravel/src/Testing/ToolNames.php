<?php

declare(strict_types=1);

namespace Pillion\Laravel\Testing;

use Illuminate\Support\Str;

/**
 * The names of a tool in a test. A tool of an MCP server has two names: one in the registry and one
 * on the server.
 */
final class ToolNames
{
    /**
     * @param string  $name         the name in the registry, with the server's prefix
     * @param ?string $nameOnServer null if the tool belongs to no configured server
     */
    public function __construct(public readonly string $name, public readonly ?string $nameOnServer = null)
    {
    }

    /**
     * Returns whether one of the tool's names equals a given name or matches a given pattern with
     * `*`.
     */
    public function matches(string $pattern): bool
    {
        return Str::is($pattern, $this->name) || ($this->nameOnServer !== null && Str::is($pattern, $this->nameOnServer));
    }

    /** @return list<string> the name in the registry first */
    public function all(): array
    {
        return array_values(array_unique([$this->name, $this->nameOnServer ?? $this->name]));
    }
}
