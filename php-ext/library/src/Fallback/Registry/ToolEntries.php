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
    private array $byName = [];
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
        if (isset($this->byName[$name]) && !$replace) {
            throw Failure::invalidInput("Tool '$name' already registered");
        }
        $this->byName[$name] = $entry;
        $this->version++;
    }

    public function has(string $name): bool
    {
        return isset($this->byName[$name]);
    }

    /** Returns the tool with this name or alias; a tool's own name takes precedence. */
    public function find(string $name): ?ToolEntry
    {
        return $this->byName[$name] ?? $this->byName[$this->aliases[$name] ?? ''] ?? null;
    }

    /** @throws \Pillion\Exception\InvalidInputException */
    public function alias(string $alias, string $tool): void
    {
        if ($this->has($alias)) {
            throw Failure::invalidInput("The alias '$alias' is already the name of a registered tool");
        }
        if (!$this->has($tool)) {
            throw Failure::invalidInput("Tool '$tool' is not registered");
        }
        $this->aliases[$alias] = $tool;
        $this->version++;
    }

    public function remove(string $name): bool
    {
        $existed = $this->has($name);
        $this->version++;
        unset($this->byName[$name]);
        if ($existed) {
            $this->aliases = array_diff($this->aliases, [$name]);
        }
        return $existed;
    }

    /** Returns a number that grows with each change. */
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
        return $this->byName;
    }

    /**
     * @param ?\Closure(ToolInterface): bool $keep
     *
     * @return array<string, ToolInterface>
     */
    public function tools(?\Closure $keep = null): array
    {
        $tools = array_map(static fn (ToolEntry $entry): ToolInterface => $entry->tool, $this->byName);
        return $keep === null ? $tools : array_filter($tools, $keep);
    }
}
