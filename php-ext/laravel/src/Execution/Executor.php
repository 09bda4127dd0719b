<?php

declare(strict_types=1);

namespace Pillion\Laravel\Execution;

use Pillion\Laravel\Approvals\Approvals;
use Pillion\Laravel\Approvals\ApprovalStatus;
use Pillion\Laravel\PillionManager;
use Pillion\Laravel\Testing\PillionFake;
use Pillion\MCPToolInterface;
use Pillion\ToolCall;
use Pillion\ToolDefinition;
use Pillion\ToolExecutor;
use Pillion\ToolInterface;
use Pillion\ToolRegistry;
use Pillion\ToolResult;

/**
 * The engine's executor, with what an application adds: who calls, limits that all workers share,
 * approvals that outlive the request, and fakes.
 */
final class Executor extends ToolExecutor
{
    /** @var array{default?: string, trusted_tools?: list<string>, tools?: array<string, string>, servers?: array<string, string>} */
    private readonly array $rules;

    /** @var ?callable */
    private $approver;

    /**
     * @param array<string, mixed>       $options  those of {@see ToolExecutor}
     * @param \Closure(string): self     $forOther the executor of another user, with that user's credentials
     */
    public function __construct(
        private readonly ToolRegistry $tools,
        array $options,
        private readonly Approvals $approvals,
        private readonly RateLimits $limits,
        private readonly ?PillionFake $fake,
        private readonly ?string $user,
        private readonly \Closure $forOther,
    ) {
        $this->approver = $options['approve'] ?? null;
        if (is_callable($this->approver)) {
            $options['approve'] = $this->approveAndCount(...);
        }
        parent::__construct($tools, $options);
        $this->rules = $options['approvals'] ?? [];
    }

    public function execute(ToolCall|array $call, array $context = []): ToolResult
    {
        return $this->executeAll([$call], $context)[0];
    }

    public function executeAll(array $calls, array $context = []): array
    {
        $other = $this->other($context);
        return $other !== null ? $other->executeAll($calls, $context) : $this->run(
            $calls,
            $context,
            fn (array $calls, array $context) => parent::executeAll($calls, $context),
        );
    }

    public function executeParallel(array $calls, array $context = []): array
    {
        $other = $this->other($context);
        return $other !== null ? $other->executeParallel($calls, $context) : $this->run(
            $calls,
            $context,
            fn (array $calls, array $context) => parent::executeParallel($calls, $context),
        );
    }

    /**
     * @param array<ToolCall|array<string, mixed>> $calls
     * @param array<string, mixed>                 $context
     *
     * @return list<ToolResult>
     */
    private function run(array $calls, array $context, \Closure $execute): array
    {
        $calls = array_map([PillionManager::class, 'toCall'], array_values($calls));
        $context = $this->context($context);
        foreach ($calls as $call) {
            $this->fake?->standIn($call, $this->tools);
        }
        $results = $this->refused($calls, $context);
        $left = array_diff_key($calls, $results);
        $results += self::runSome($left, $context, $execute);
        $results = array_replace($results, $this->runDecided($left, $results, $context, $execute));
        ksort($results);
        return $results;
    }

    /**
     * Counts the calls that are about to run: not those that fail before, nor those that wait for
     * somebody, which count once they have been approved.
     *
     * @param list<ToolCall>       $calls
     * @param array<string, mixed> $context
     *
     * @return array<int, ToolResult> of those that a limit refuses
     */
    private function refused(array $calls, array $context): array
    {
        // Where every call has to ask, none runs: what would be asked about is valid.
        $rehearsal = new ToolExecutor($this->tools, ['approvals' => ['default' => 'always-ask']]);
        $ids = ['approved' => [], 'denied' => []];
        $rehearsed = $rehearsal->executeAll($calls, array_replace($context, $ids));
        $refused = [];
        foreach ($calls as $place => $call) {
            $tool = $this->tools->get($call->name);
            $id = $rehearsed[$place]->metadata['approval_id'] ?? null;
            $runs = $tool !== null && $rehearsed[$place]->errorCode === 'approval_required'
                && !in_array($id, $context['denied'] ?? [], true)
                && (in_array($id, $context['approved'] ?? [], true) || !$this->asks($tool));
            $refusal = $runs ? $this->limits->refuse($call, $tool, $context['user'] ?? null) : null;
            if ($refusal !== null) {
                $refused[$place] = $refusal;
            }
        }
        return $refused;
    }

    /** Whether a call of the tool needs approval: the engine's rules, which it keeps itself in any case. */
    private function asks(ToolInterface $tool): bool
    {
        $name = $tool->getName();
        // A rule may name the tool by an alias.
        $means = fn (string $rule) => $rule === $name || $this->tools->get($rule)?->getName() === $name;
        $named = array_filter($this->rules['tools'] ?? [], $means, ARRAY_FILTER_USE_KEY);
        $strictest = array_values(array_intersect(['always-ask', 'always', 'prompt', 'trusted-only', 'auto', 'never'], $named))[0] ?? null;
        $server = $tool instanceof MCPToolInterface ? ($tool->getMCPServerConfig()['server_label'] ?? '') : '';
        $policy = $strictest ?? $this->rules['servers'][$server] ?? $this->rules['default'] ?? 'auto';
        return $tool->getDefinition()->requiresConfirmation || match ($policy) {
            'auto', 'never' => false,
            'trusted-only' => array_filter($this->rules['trusted_tools'] ?? [], $means) === [],
            default => true,
        };
    }

    /**
     * The option `approve`, and the limits for what it approves.
     *
     * @param array<string, mixed> $context
     */
    private function approveAndCount(ToolCall $call, ToolDefinition $definition, array $context): mixed
    {
        $answer = ($this->approver)($call, $definition, $context);
        $tool = $this->tools->get($definition->name);
        $refusal = $answer === true && $tool !== null
            ? $this->limits->refuse($call, $tool, $context['user'] ?? null)
            : null;
        $refusal?->throw();
        return $answer;
    }

    /**
     * Runs again what has been decided on, and notes what has not.
     *
     * @param array<int, ToolCall>   $calls   that ran
     * @param array<int, ToolResult> $results
     * @param array<string, mixed>   $context
     *
     * @return array<int, ToolResult> for the calls that ran again, or that a limit refused then
     */
    private function runDecided(array $calls, array $results, array $context, \Closure $execute): array
    {
        $decided = $refused = [];
        $user = $context['user'] ?? null;
        foreach ($calls as $place => $call) {
            $result = $results[$place];
            $id = $result->metadata['approval_id'] ?? null;
            if ($result->errorCode !== 'approval_required' || !is_string($id)) {
                continue;
            }
            $tool = $this->tools->get($call->name);
            // An approval is kept for later when a limit refuses the call now.
            if ($tool !== null && $this->approvals->find($id)?->status === ApprovalStatus::Approved) {
                $refusal = $this->limits->refuse($call, $tool, $user);
                if ($refusal !== null) {
                    $refused[$place] = $refusal;
                    continue;
                }
            }
            $status = $this->approvals->claim($result, $user);
            if ($status !== ApprovalStatus::Pending) {
                $decided[$place] = $call;
                $context[$status === ApprovalStatus::Approved ? 'approved' : 'denied'][] = $id;
            }
        }
        return $refused + self::runSome($decided, $context, $execute);
    }

    /**
     * @param array<int, ToolCall> $calls
     * @param array<string, mixed> $context
     *
     * @return array<int, ToolResult> by the places of the calls
     */
    private static function runSome(array $calls, array $context, \Closure $execute): array
    {
        return $calls === [] ? [] : array_combine(array_keys($calls), $execute(array_values($calls), $context));
    }

    /**
     * The executor of the user whom the context names, when that is somebody else.
     *
     * @param array<string, mixed> $context
     */
    private function other(array $context): ?self
    {
        $user = PillionManager::userKey($context['user'] ?? null);
        return $user === null || $user === $this->user ? null : ($this->forOther)($user);
    }

    /**
     * @param array<string, mixed> $context
     *
     * @return array<string, mixed>
     */
    private function context(array $context): array
    {
        $user = PillionManager::userKey($context['user'] ?? null) ?? $this->user;
        return $user === null ? $context : ['user' => $user] + $context;
    }
}
