<?php

declare(strict_types=1);

namespace Pillion\Laravel\Execution;

use Closure;
use Pillion\Laravel\Approvals\Approvals;
use Pillion\Laravel\Approvals\ApprovalStatus;
use Pillion\ToolCall;
use Pillion\ToolDefinition;
use Pillion\ToolRegistry;
use Pillion\ToolResult;

/**
 * Has the last word before a call runs (the option `before` of the engine's executor): what the
 * application says, the limits that all workers share, and then the approval, which is used up by the
 * call. One that a limit refuses keeps its approval.
 */
final class Admission
{
    /** @var array<string, ToolResult> what ended as `approval_required` and has been approved since, by approval id */
    private array $approved = [];

    /** @var array<string, true> calls that were let through already, and did not run; by their ids */
    private array $admitted = [];

    /** @var ?Closure(ToolCall, ToolDefinition, array<string, mixed>): mixed */
    private readonly ?Closure $before;

    /** @param ?callable $before the application's own word */
    public function __construct(
        private readonly ToolRegistry $tools,
        private readonly Approvals $approvals,
        private readonly RateLimits $limits,
        ?callable $before,
    ) {
        $this->before = $before === null ? null : Closure::fromCallable($before);
    }

    /**
     * Runs calls, some of which the store of approvals has said yes to.
     *
     * @template T
     *
     * @param array<string, ToolResult> $approved how those ended for want of it, by approval id
     * @param array<string, true>       $admitted calls that come again in this request and had passed, by
     *                                            their ids: they count once
     * @param Closure(): T              $run
     *
     * @return T
     */
    public function with(array $approved, array $admitted, Closure $run): mixed
    {
        $outer = [$this->approved, $this->admitted];
        [$this->approved, $this->admitted] = [$approved, $admitted];
        try {
            return $run();
        } finally {
            [$this->approved, $this->admitted] = $outer;
        }
    }

    /**
     * @param array<string, mixed> $context
     *
     * @return mixed null lets the call run; else a {@see ToolResult}, or what the application answered
     */
    public function before(ToolCall $call, ToolDefinition $definition, array $context): mixed
    {
        if (isset($this->admitted[$call->id])) {
            return null;
        }
        $answer = $this->before === null ? null : ($this->before)($call, $definition, $context);
        if ($answer !== null) {
            return $answer;
        }
        $tool = $this->tools->get($definition->name);
        $refusal = $tool === null ? null : $this->limits->refuse($call, $tool, $context['user'] ?? null);
        return $refusal ?? $this->claim($context['approval_id'] ?? '', $context['user'] ?? null);
    }

    /** Null when the approval is there; another call, here or in another worker, may have used it up. */
    private function claim(string $id, ?string $user): ?ToolResult
    {
        $waiting = $this->approved[$id] ?? null;
        return match ($waiting === null ? null : $this->approvals->claim($waiting, $user)) {
            null, ApprovalStatus::Approved => null,
            ApprovalStatus::Denied => ToolResult::failure(
                "The call of tool '$waiting->toolName' was denied",
                'denied',
                metadata: ['approval_id' => $id],
            ),
            ApprovalStatus::Pending => $waiting,
        };
    }
}
