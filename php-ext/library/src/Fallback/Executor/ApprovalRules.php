<?php

declare(strict_types=1);

namespace Pillion\Fallback\Executor;

use Pillion\Fallback\Registry\ToolEntry;

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
     * @param array<string, string> $tools   policies by tool name
     * @param array<string, string> $servers policies by server label
     */
    public function __construct(
        private readonly string $default = 'auto',
        private readonly array $trustedTools = [],
        private readonly array $tools = [],
        private readonly array $servers = [],
    ) {
    }

    /** @param callable(string): bool $isNamed whether a name is the tool's name or an alias */
    public function requiresApproval(ToolEntry $entry, callable $isNamed): bool
    {
        $policies = array_filter($this->tools, $isNamed, ARRAY_FILTER_USE_KEY);
        $strictest = array_values(array_intersect(['always-ask', 'trusted-only', 'auto'], $policies))[0] ?? null;
        $serverPolicy = $entry->origin === null ? null : $this->servers[$entry->origin->label] ?? null;
        return $entry->definition->requiresConfirmation || match ($strictest ?? $serverPolicy ?? $entry->approvalPolicy ?? $this->default) {
            'auto' => false,
            'trusted-only' => array_filter($this->trustedTools, $isNamed) === [],
            default => true,
        };
    }
}
