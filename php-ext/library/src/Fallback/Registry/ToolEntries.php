<?php

declare(strict_types=1);

namespace Pillion\Fallback\Registry;

use Pillion\Fallback\Failure;
use Pillion\ToolInterface;
use Pillion\ToolRegistry;

/**
 * The tools of a registry, in the order of their registration.
 *
 * @internal
 */
final class ToolEntries
{
    /** @var array<string, ToolEntry> */
    private array $entries = [];
    /** @var array<string, string> */
    private array $aliases = [];
    private int $version = 0;

    /** Returns the entries of a registry. */
    public static function forRegistry(ToolRegistry $registry): self
    {
        return \Closure::bind(static fn (ToolRegistry $registry): ToolEntries => $registry->entries, null, ToolRegistry::class)($registry);
    }

    /** @throws \Pillion\Exception\InvalidInputException when the name is taken */
    public function add(ToolEntry $entry, bool $replace): void
    {
        $name = $entry->definition->name;
        if (isset($this->entries[$name]) && !$replace) {
            throw Failure::invalidInput("Tool '$name' already registered");
        }
        $this->entries[$name] = $entry;
        $this->version++;
    }

    public function has(string $name): bool
    {
        return isset($this->entries[$name]);
    }

    /** Returns the tool with this name or alias; a name takes precedence over an alias. */
    public function find(string $name): ?ToolEntry
    {
        return $this->entries[$name] ?? $this->entries[$this->aliases[$name] ?? ''] ?? null;
    }

    /** @throws \Pillion\Exception\InvalidInputException */
    public function addAlias(string $alias, string $toolName): void
    {
        if ($this->has($alias)) {
            throw Failure::invalidInput("The alias '$alias' is already the name of a registered tool");
        }
        if (!$this->has($toolName)) {
            throw Failure::invalidInput("Tool '$toolName' is not registered");
        }
        $this->aliases[$alias] = $toolName;
        $this->version++;
    }

    public function remove(string $name): bool
    {
        $wasRegistered = $this->has($name);
        $this->version++;
        unset($this->entries[$name]);
        if ($wasRegistered) {
            $this->aliases = array_diff($this->aliases, [$name]);
        }
        return $wasRegistered;
    }

    /** Returns a number that grows with each change to the registry. */
    public function version(): int
    {
        return $this->version;
    }

    /** @return array<string, string> the names of the tools by alias */
    public function aliases(): array
    {
        return $this->aliases;
    }

    /** @return array<string, ToolEntry> */
    public function all(): array
    {
        return $this->entries;
    }

    /**
     * @param ?\Closure(ToolInterface): bool $isIncluded
     *
     * @return array<string, ToolInterface>
     */
    public function tools(?\Closure $isIncluded = null): array
    {
        $tools = array_map(static fn (ToolEntry $entry): ToolInterface => $entry->tool, $this->entries);
        return $isIncluded === null ? $tools : array_filter($tools, $isIncluded);
    }
}
