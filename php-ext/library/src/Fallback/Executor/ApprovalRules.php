<?php

declare(strict_types=1);

namespace Pillion\Fallback\Executor;

use Pillion\Fallback\Registry\Entry;

/**
 * The option `approvals` of an executor. The most exact policy counts: that of the tool, else
 * that of its server, else what its server's entry says, else the default. A tool may be named by its aliases too; of several policies
 * for one tool the strictest counts. A definition that requires confirmation asks in any case.
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

    /** @param callable(string): bool $means whether a name is that of the tool, or an alias of it */
    public function asks(Entry $entry, callable $means): bool
    {
        $named = array_filter($this->tools, $means, ARRAY_FILTER_USE_KEY);
        $strictest = array_values(array_intersect(['always-ask', 'trusted-only', 'auto'], $named))[0] ?? null;
        $ofServer = $entry->origin === null ? null : $this->servers[$entry->origin->label] ?? null;
        return $entry->definition->requiresConfirmation || match ($strictest ?? $ofServer ?? $entry->approvalPolicy ?? $this->default) {
            'auto' => false,
            'trusted-only' => array_filter($this->trustedTools, $means) === [],
            default => true,
        };
    }
}
