<?php

declare(strict_types=1);

namespace Pillion\Laravel\Servers;

use Illuminate\Contracts\Config\Repository;
use Pillion\Exception\InvalidInputException;
use Pillion\Exception\NotFoundException;

/** The servers of `pillion.servers`. */
final class ServerDirectory
{
    public function __construct(private readonly Repository $config)
    {
    }

    /** @return list<string> */
    public function names(): array
    {
        return array_map('strval', array_keys($this->config->get('pillion.servers', [])));
    }

    public function has(string $name): bool
    {
        return in_array($name, $this->names(), true);
    }

    /** @throws NotFoundException */
    public function get(string $name): ServerConfig
    {
        // Not `get("pillion.servers.$name")`: a name may have a dot.
        $entry = $this->config->get('pillion.servers', [])[$name] ?? null;
        if ($entry === null) {
            throw new NotFoundException(
                "No MCP server '$name' in config/pillion.php; there are: " . (implode(', ', $this->names()) ?: 'none')
            );
        }
        if (!is_array($entry)) {
            throw new InvalidInputException("MCP server '$name' is an array, not " . get_debug_type($entry));
        }
        return ServerConfig::fromArray($name, $entry);
    }

    /** @return array<string, ServerConfig> */
    public function all(): array
    {
        $all = [];
        foreach ($this->names() as $name) {
            $all[$name] = $this->get($name);
        }
        return $all;
    }
}
