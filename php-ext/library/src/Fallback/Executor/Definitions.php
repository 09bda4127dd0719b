<?php

declare(strict_types=1);

namespace Pillion\Fallback\Executor;

use Pillion\Fallback\InputSchema;
use Pillion\Fallback\Registry\ToolEntries;
use Pillion\Fallback\Registry\ToolEntry;
use Pillion\Fallback\SidecarTools;

/**
 * Tracks the tool definitions that a connection has sent, so that each request sends only the
 * changes since the previous request.
 *
 * @internal
 */
final class Definitions
{
    /** @var array<string, int> the registration numbers of the sent tools, by name */
    private array $sentNumbers = [];
    /** The version of the registry whose definitions the connection has sent; null before the first request. */
    private ?int $sentVersion = null;

    /**
     * Returns the request's parameter `definitions`, which contains the changes to the registry
     * since the previous request; empty if the registry has not changed.
     *
     * @return array<string, mixed>
     */
    public function findChanges(ToolEntries $entries): array
    {
        if ($entries->version() === $this->sentVersion) {
            return [];
        }
        $tools = $entries->all();
        $isNew = fn (ToolEntry $entry): bool => ($this->sentNumbers[$entry->definition->name] ?? null) !== $entry->number;
        return ['definitions' => [
            'removed' => array_map(strval(...), array_keys(array_diff_key($this->sentNumbers, $tools))),
            'tools' => array_map(self::describe(...), array_values(array_filter($tools, $isNew))),
            'aliases' => (object) $entries->aliases(),
        ]];
    }

    public function markSent(ToolEntries $entries): void
    {
        $this->sentNumbers = array_map(static fn (ToolEntry $entry): int => $entry->number, $entries->all());
        $this->sentVersion = $entries->version();
    }

    /**
     * Makes the next request send all definitions again. The names of the tools stay recorded,
     * because the sidecar may have stored these tools.
     */
    public function reset(): void
    {
        $this->sentNumbers = array_map(static fn (): int => 0, $this->sentNumbers);
        $this->sentVersion = null;
    }

    /** @return array<string, mixed> */
    private static function describe(ToolEntry $entry): array
    {
        $definition = $entry->definition;
        $description = [
            'number' => $entry->number,
            'name' => $definition->name,
            'description' => $definition->description,
            'inputSchema' => InputSchema::toTree($definition),
            'category' => $definition->category,
            'strict' => $definition->strict,
            'requiresConfirmation' => $definition->requiresConfirmation,
            'cooldownSeconds' => $definition->cooldownSeconds,
            'server' => $entry->origin === null ? null : ['label' => $entry->origin->label, 'url' => $entry->origin->url],
            'approvalPolicy' => $entry->approvalPolicy,
            'sidecarName' => SidecarTools::findSidecarName($entry->tool),
        ];
        return array_filter($description, static fn (mixed $value): bool => $value !== null);
    }
}
