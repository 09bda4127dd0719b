<?php

declare(strict_types=1);

namespace Pillion\Fallback\Executor;

use Pillion\Fallback\Registry\Entry;

/**
 * The option `approvals` of an executor. The most exact policy counts: that of the tool, else
 * that of its server, else the default. A definition that requires confirmation asks in any case.
 *
 * @internal
 */
final class ApprovalRules
{
    /** The words of policies, those of server entries too. */
    public const POLICIES = [
        'auto' => 'auto', 'never' => 'auto',
        'always-ask' => 'always-ask', 'always' => 'always-ask', 'prompt' => 'always-ask',
        'trusted-only' => 'trusted-only',
    ];

    /**
     * @param list<string>          $trustedTools
     * @param array<string, string> $tools        policies by the name of the tool
     * @param array<string, string> $servers      policies by the label of the server
     */
    public function __construct(
        private readonly string $default = 'auto',
        private readonly array $trustedTools = [],
        private readonly array $tools = [],
        private readonly array $servers = [],
    ) {
    }

    public function asks(Entry $entry): bool
    {
        $name = $entry->definition->name;
        $ofServer = $entry->origin === null ? null : $this->servers[$entry->origin->label] ?? null;
        return $entry->definition->requiresConfirmation || match ($this->tools[$name] ?? $ofServer ?? $this->default) {
            'auto' => false,
            'trusted-only' => !in_array($name, $this->trustedTools, true),
            default => true,
        };
    }
}
