<?php

declare(strict_types=1);

namespace Pillion\Laravel\Execution;

use Closure;
use Pillion\Exception\RateLimitedException;
use Pillion\Laravel\Approvals\Approvals;
use Pillion\Laravel\Approvals\ApprovalStatus;
use Pillion\ToolCall;
use Pillion\ToolDefinition;
use Pillion\ToolRegistry;
use Pillion\ToolResult;

/**
 * The last checks before a call runs (the option `before` of the engine's executor), in this order:
 *
 *  1. the application's own check
 *  2. the limits shared by all workers
 *  3. the approval, which the call consumes. A call that a limit rejects therefore does not consume
 *     its approval.
 */
final class Admission
{
    /**
     * @var array<string, ToolResult> the earlier results (`approval_required`) of calls that have been approved since,
     *     by approval ID
     */
    private array $approvedResults = [];

    /** @var array<string, int> how many more times each call is admitted without checks, by the call's digest */
    private array $readmittedCounts = [];

    /** @var list<AdmittedCall> the admitted calls */
    private array $admittedCalls = [];

    /** @var ?Closure(ToolCall, ToolDefinition, array<string, mixed>): mixed */
    private readonly ?Closure $before;

    /** @param ?callable $before the application's own check */
    public function __construct(
        private readonly ToolRegistry $tools,
        private readonly Approvals $approvals,
        private readonly RateLimits $limits,
        ?callable $before,
    ) {
        $this->before = $before === null ? null : Closure::fromCallable($before);
    }

    /**
     * Runs `$run`, which makes calls, some of which were approved after their previous attempt.
     *
     * @template T
     *
     * @param array<string, ToolResult> $approvedResults the results (`approval_required`) of the approved
     *                                            calls' previous attempts, by approval ID
     * @param list<AdmittedCall> $readmittedCalls calls that were admitted earlier and are repeated in this
     *                                            request: each is admitted once more
     * @param Closure(): T $run
     *
     * @return array{T, list<AdmittedCall>} what `$run` returned, and the admitted calls
     */
    public function runCalls(array $approvedResults, array $readmittedCalls, Closure $run): array
    {
        $outerState = [$this->approvedResults, $this->readmittedCounts, $this->admittedCalls];
        // A call is identified by its ID, tool and arguments together, because the model chooses
        // the ID and may repeat it.
        $counts = array_count_values(array_map(static fn (AdmittedCall $call): string => $call->digest, $readmittedCalls));
        [$this->approvedResults, $this->readmittedCounts, $this->admittedCalls] = [$approvedResults, $counts, []];
        try {
            return [$run(), $this->admittedCalls];
        } finally {
            [$this->approvedResults, $this->readmittedCounts, $this->admittedCalls] = $outerState;
        }
    }

    /**
     * @param array<string, mixed> $context
     *
     * @return mixed null lets the call run; otherwise a {@see ToolResult}, or the return value of the application's check
     */
    public function before(ToolCall $call, ToolDefinition $definition, array $context): mixed
    {
        $admittedCall = AdmittedCall::fromCall($call, $definition);
        if (($this->readmittedCounts[$admittedCall->digest] ?? 0) > 0) {
            $this->readmittedCounts[$admittedCall->digest]--;
            $this->admittedCalls[] = $admittedCall;
            return null;
        }
        $result = $this->before === null ? null : ($this->before)($call, $definition, $context);
        if ($result !== null) {
            return $result;
        }
        $tool = $this->tools->get($definition->name);
        $rejection = $tool === null ? null : $this->limits->check($call, $tool, $context['user'] ?? null);
        $rejection ??= $this->claim($context['approval_id'] ?? '', $context['user'] ?? null);
        if ($rejection === null) {
            $this->admittedCalls[] = $admittedCall;
        }
        return $rejection;
    }

    /**
     * Consumes the approval of a call. Returns null if the approval was available. Otherwise
     * returns the rejection: another call, in this or in another worker, may have consumed the
     * approval.
     */
    private function claim(string $approvalId, ?string $user): ?ToolResult
    {
        $waitingResult = $this->approvedResults[$approvalId] ?? null;
        try {
            return $this->claimDecision($waitingResult, $approvalId, $user);
        } catch (RateLimitedException $exception) {
            return ToolResult::failure($exception->getMessage(), $exception->errorCode);
        }
    }

    /** @throws RateLimitedException when too many calls are pending already */
    private function claimDecision(?ToolResult $waitingResult, string $approvalId, ?string $user): ?ToolResult
    {
        return match ($waitingResult === null ? null : $this->approvals->claim($waitingResult, $user)) {
            null, ApprovalStatus::Approved => null,
            ApprovalStatus::Denied => ToolResult::failure(
                "The call to tool '$waitingResult->toolName' was denied",
                'denied',
                metadata: ['approval_id' => $approvalId],
            ),
            ApprovalStatus::Pending => $waitingResult,
        };
    }
}
