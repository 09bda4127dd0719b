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
 * The last check before a call runs (the option `before` of the engine's executor): first the application's
 * own check, then the limits shared by all workers, then the approval, which the call consumes. A call that a
 * limit rejects keeps its approval.
 */
final class Admission
{
    /** @var array<string, ToolResult> earlier results (`approval_required`) of calls approved since, by approval ID */
    private array $approved = [];

    /** @var array<string, int> how often a call that was admitted earlier but did not run may still pass, by digest */
    private array $readmitted = [];

    /** @var list<AdmittedCall> the admitted calls */
    private array $admitted = [];

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
     * Runs calls, some of which were approved since their last attempt.
     *
     * @template T
     *
     * @param array<string, ToolResult> $approved the earlier results (`approval_required`) of approved calls,
     *                                            by approval ID
     * @param list<AdmittedCall> $readmitted calls that were admitted earlier and are repeated in this
     *                                            request: each is admitted once more
     * @param Closure(): T $run
     *
     * @return array{T, list<AdmittedCall>} what `$run` returned, and the admitted calls
     */
    public function runWith(array $approved, array $readmitted, Closure $run): array
    {
        $outer = [$this->approved, $this->readmitted, $this->admitted];
        // A model chooses the IDs of calls, so a call is identified by its ID, tool and arguments together.
        $readmitted = array_count_values(array_map(static fn (AdmittedCall $call): string => $call->digest, $readmitted));
        [$this->approved, $this->readmitted, $this->admitted] = [$approved, $readmitted, []];
        try {
            return [$run(), $this->admitted];
        } finally {
            [$this->approved, $this->readmitted, $this->admitted] = $outer;
        }
    }

    /**
     * @param array<string, mixed> $context
     *
     * @return mixed null lets the call run; otherwise a {@see ToolResult}, or the return value of the application's check
     */
    public function before(ToolCall $call, ToolDefinition $definition, array $context): mixed
    {
        $admitted = AdmittedCall::fromCall($call, $definition);
        if (($this->readmitted[$admitted->digest] ?? 0) > 0) {
            $this->readmitted[$admitted->digest]--;
            $this->admitted[] = $admitted;
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
            $this->admitted[] = $admitted;
        }
        return $rejection;
    }

    /**
     * Consumes the approval of a call. Returns null if the approval was available; another call,
     * here or in another worker, may have consumed it.
     */
    private function claim(string $id, ?string $user): ?ToolResult
    {
        $waiting = $this->approved[$id] ?? null;
        try {
            return $this->claimDecision($waiting, $id, $user);
        } catch (RateLimitedException $e) {
            return ToolResult::failure($e->getMessage(), $e->errorCode);
        }
    }

    /** @throws RateLimitedException when too many calls are pending already */
    private function claimDecision(?ToolResult $waiting, string $id, ?string $user): ?ToolResult
    {
        return match ($waiting === null ? null : $this->approvals->claim($waiting, $user)) {
            null, ApprovalStatus::Approved => null,
            ApprovalStatus::Denied => ToolResult::failure(
                "The call to tool '$waiting->toolName' was denied",
                'denied',
                metadata: ['approval_id' => $id],
            ),
            ApprovalStatus::Pending => $waiting,
        };
    }
}
