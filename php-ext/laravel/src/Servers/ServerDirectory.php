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
        // The whole array `pillion.servers` is read, because `get("pillion.servers.$name")` would
        // split a name that contains a dot.
        $entries = $this->entries();
        if (!array_key_exists($name, $entries)) {
            throw new NotFoundException(
                "Unknown MCP server '$name'; config/pillion.php defines: " . (implode(', ', $this->names()) ?: 'none')
            );
        }
        if (!is_array($entries[$name])) {
            throw ConfigReader::invalid("servers.$name", 'must be an array', $entries[$name]);
        }
        return ServerConfig::fromArray($name, $entries[$name]);
    }

    /**
     * Returns all valid servers. An invalid entry is skipped and logged.
     *
     * @return array<string, ServerConfig>
     */
    public function all(): array
    {
        $servers = [];
        foreach ($this->names() as $name) {
            try {
                $servers[$name] = $this->get($name);
                $this->skipped->remove($name);
            } catch (InvalidInputException $exception) {
                $this->skipped->add($name, $exception);
            }
        }
        return $servers;
    }

    /**
     * Returns the labels of the entries that {@see all()} skipped.
     *
     * @param array<string, ServerConfig> $validServers
     *
     * @return list<string>
     */
    public function skippedLabels(array $validServers): array
    {
        $labels = [];
        foreach (array_diff_key($this->entries(), $validServers) as $name => $entry) {
            $labels[] = (string) $name;
            if (is_array($entry) && is_string($entry['server_label'] ?? null)) {
                $labels[] = $entry['server_label'];
            }
        }
        return $labels;
    }

    /** @return array<string, mixed> */
    private function entries(): array
    {
        return ConfigReader::readArray($this->config->getValue(), 'servers');
    }
}
