<?php

declare(strict_types=1);

namespace Pillion\Laravel\Servers;

use Illuminate\Contracts\Config\Repository;
use Pillion\Exception\InvalidInputException;
use Pillion\Exception\NotFoundException;
use Pillion\Laravel\ConfigReader;
use Pillion\Laravel\SkippedEntries;
use SensitiveParameterValue;

/** The servers of `pillion.servers`. */
final class ServerDirectory
{
    /** The configuration, hidden from dumps. */
    private readonly SensitiveParameterValue $config;

    public function __construct(Repository $config, private readonly SkippedEntries $skipped)
    {
        $this->config = new SensitiveParameterValue($config);
    }

    /** @return list<string> */
    public function names(): array
    {
        return array_map('strval', array_keys($this->entries()));
    }

    public function has(string $name): bool
    {
        return in_array($name, $this->names(), true);
    }

    /** @throws NotFoundException|InvalidInputException */
    public function get(string $name): ServerConfig
    {
        // `get("pillion.servers.$name")` would split a name that contains a dot.
        $entry = $this->entries()[$name] ?? null;
        if ($entry === null) {
            throw new NotFoundException(
                "Unknown MCP server '$name'; config/pillion.php defines: " . (implode(', ', $this->names()) ?: 'none')
            );
        }
        if (!is_array($entry)) {
            throw new InvalidInputException("The entry of MCP server '$name' must be an array, not " . get_debug_type($entry));
        }
        return ServerConfig::fromArray($name, $entry);
    }

    /**
     * Returns all valid servers. An invalid entry is skipped and logged.
     *
     * @return array<string, ServerConfig>
     */
    public function all(): array
    {
        $all = [];
        foreach ($this->names() as $name) {
            try {
                $all[$name] = $this->get($name);
                $this->skipped->remove($name);
            } catch (InvalidInputException $e) {
                $this->skipped->add($name, $e);
            }
        }
        return $all;
    }

    /** @return array<string, mixed> */
    private function entries(): array
    {
        return ConfigReader::readArray($this->config->getValue(), 'servers');
    }
}
