<?php

declare(strict_types=1);

namespace Pillion\Fallback\Executor;

use Pillion\Fallback\InputSchema;
use Pillion\Fallback\Registry\ToolEntries;
use Pillion\Fallback\Registry\ToolEntry;
use Pillion\Fallback\SidecarTools;

/**
 * The definitions that a connection has sent, so that each request sends only the changes of the registry.
 *
 * @internal
 */
final class Definitions
{
    /** @var array<string, int> the numbers of the sent tools by name */
    private array $sent = [];
    private ?int $version = null;

    /**
     * Returns the request's parameter `definitions` with the changes of the registry; empty if
     * there are none.
     *
     * @return array<string, mixed>
     */
    public function changes(ToolEntries $entries): array
    {
        if ($entries->version() === $this->version) {
            return [];
        }
        $tools = $entries->all();
        $isNew = fn (ToolEntry $entry): bool => ($this->sent[$entry->definition->name] ?? null) !== $entry->number;
        return ['definitions' => [
            'removed' => array_map(strval(...), array_keys(array_diff_key($this->sent, $tools))),
            'tools' => array_map(self::describe(...), array_values(array_filter($tools, $isNew))),
            'aliases' => (object) $entries->aliases(),
        ]];
    }

    public function markSent(ToolEntries $entries): void
    {
        $this->sent = array_map(static fn (ToolEntry $entry): int => $entry->number, $entries->all());
        $this->version = $entries->version();
    }

    /**
     * Makes the next request send all definitions again. The sent names are kept, because the
     * sidecar may have them.
     */
    public function reset(): void
    {
        $this->sent = array_map(static fn (): int => 0, $this->sent);
        $this->version = null;
    }

    /** @return array<string, mixed> */
    private static function describe(ToolEntry $entry): array
    {
        $definition = $entry->definition;
        $description = [
            'number' => $entry->number,
            'name' => $definition->name,
            'description' => $definition->description,
            'inputSchema' => InputSchema::tree($definition),
            'category' => $definition->category,
            'strict' => $definition->strict,
            'requiresConfirmation' => $definition->requiresConfirmation,
            'cooldownSeconds' => $definition->cooldownSeconds,
            'server' => $entry->origin === null ? null : ['label' => $entry->origin->label, 'url' => $entry->origin->url],
            'approvalPolicy' => $entry->approvalPolicy,
            'sidecarName' => SidecarTools::sidecarNameOf($entry->tool),
        ];
        return array_filter($description, static fn (mixed $value): bool => $value !== null);
    }
}
