<?php

declare(strict_types=1);

namespace Pillion\Fallback\Executor;

use Pillion\Fallback\Registry\Entry;

/**
 * The `approvals` option of an executor. The most specific policy applies: the tool's policy, otherwise the
 * server's policy, otherwise the policy of the server entry, otherwise the default. Policies may name tools
 * by alias; if several policies name the same tool, the strictest applies. A definition that requires
 * confirmation always needs approval.
 *
 * @internal
 */
final class ApprovalRules
{
    /** The names of policies, including those used in server entries. */
    public const POLICIES = [
        'auto' => 'auto', 'never' => 'auto',
        'always-ask' => 'always-ask', 'always' => 'always-ask', 'prompt' => 'always-ask',
        'trusted-only' => 'trusted-only',
    ];

    /**
     * @param list<string>          $trustedTools
     * @param array<string, string> $tools        policies by tool name
     * @param array<string, string> $servers      policies by server label
     */
    public function __construct(
        private readonly string $default = 'auto',
        private readonly array $trustedTools = [],
        private readonly array $tools = [],
        private readonly array $servers = [],
    ) {
    }

    /** @param callable(string): bool $means whether a name is the tool's name or an alias */
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
