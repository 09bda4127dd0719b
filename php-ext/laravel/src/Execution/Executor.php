<?php

declare(strict_types=1);

namespace Pillion\Laravel\Execution;

use Closure;
use Pillion\Exception\PillionException;
use Pillion\Exception\RateLimitedException;
use Pillion\Laravel\Approvals\Approvals;
use Pillion\Laravel\Approvals\ApprovalStatus;
use Pillion\Laravel\Approvals\SidecarApprovals;
use Pillion\Laravel\Hooks;
use Pillion\ToolCall;
use Pillion\ToolExecutor;
use Pillion\ToolRegistry;
use Pillion\ToolResult;
use SensitiveParameterValue;

/**
 * The engine's executor with the additions of an application: the current user, limits shared by all workers,
 * approvals that outlive the request, and fakes.
 */
final class Executor extends ToolExecutor
{
    /**
     * Registry, approvals, admission, hooks and the factory for executors of other users, hidden from dumps
     * because they reference the whole application.
     */
    private readonly SensitiveParameterValue $parts;

    /**
     * @param array<string, mixed>  $options  options of {@see ToolExecutor}
     * @param Closure(string): self $forOther returns the executor of another user, with that user's credentials
     */
    public function __construct(
        ToolRegistry $tools,
        array $options,
        Approvals $approvals,
        Admission $admission,
        Hooks $hooks,
        private readonly ?string $user,
        Closure $forOther,
    ) {
        $this->parts = new SensitiveParameterValue([$tools, $approvals, $admission, $hooks, $forOther]);
        $options['before'] = new HiddenCallable($admission->before(...));
        if (is_callable($options['approve'] ?? null)) {
            $options['approve'] = new HiddenCallable($options['approve']);
        }
        parent::__construct($tools, $options);
    }

    public function __serialize(): array
    {
        throw new \LogicException('An executor is not serialised: a job makes its own with Pillion::executor()');
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
    private function run(array $calls, array $context, Closure $execute): array
    {
        [$tools, , , $hooks] = $this->parts->getValue();
        $calls = Calls::all($calls);
        $context = $this->context($context);
        foreach ($calls as $call) {
            $hooks->fake?->standIn($call, $tools);
        }
        [$results, $passed] = $this->parts->getValue()[2]->with([], [], fn () => $execute($calls, $context));
        return array_replace($results, $this->runDecided($calls, $results, $passed, $context, $execute));
    }

    /**
     * Runs the decided calls again, and records the undecided ones as pending.
     *
     * @param array<int, ToolCall>   $calls   by position
     * @param array<int, ToolResult> $results
     * @param list<PassedCall>       $passed  the admitted calls
     * @param array<string, mixed>   $context
     *
     * @return array<int, ToolResult> the results of the calls that ran again or failed
     */
    private function runDecided(array $calls, array $results, array $passed, array $context, Closure $execute): array
    {
        [$tools, $approvals, $admission] = $this->parts->getValue();
        $failed = $decided = $approved = $admitted = $used = [];
        foreach ($calls as $place => $call) {
            $result = $results[$place];
            $id = $result->metadata['approval_id'] ?? null;
            if ($result->errorCode !== 'approval_required' || !is_string($id)) {
                continue;
            }
            $approval = $approvals->find($id);
            if (SidecarApprovals::asked($result)) {
                $tool = $tools->get($call->name);
                try {
                    SidecarApprovals::tell($approval, $tool);
                } catch (PillionException $e) {
                    $failed[$place] = self::untold($result, $e);
                    continue;
                }
                try {
                    $status = $approvals->claim($result, $context['user'] ?? null);
                } catch (RateLimitedException $e) {
                    $failed[$place] = self::unnoted($result, $e);
                    continue;
                }
                if ($status !== ApprovalStatus::Pending) {
                    $decided[$place] = $call;
                    $admitted[] = [$call->id, $tool?->getName() ?? $call->name];
                }
                continue;
            }
            // The call consumes an approval after the limits are checked; any other decision is consumed
            // here.
            $status = $approval?->status;
            if ($status === ApprovalStatus::Approved) {
                $approved[$id] = $result;
                $used[$place] = $approval;
            } else {
                try {
                    $status = $approvals->claim($result, $context['user'] ?? null);
                } catch (RateLimitedException $e) {
                    $failed[$place] = self::unnoted($result, $e);
                    continue;
                }
            }
            if ($status !== ApprovalStatus::Pending) {
                $decided[$place] = $call;
                $context[$status === ApprovalStatus::Approved ? 'approved' : 'denied'][] = $id;
            }
        }
        if ($decided === []) {
            return $failed;
        }
        $run = fn () => $execute(array_values($decided), $context);
        [$again, $passed] = $admission->with($approved, PassedCall::among($passed, $admitted), $run);
        $again = array_combine(array_keys($decided), $again);
        // The sidecar may require approval for a call that the application approved.
        $asked = array_filter($again, SidecarApprovals::asked(...));
        $further = $this->runDecided(array_intersect_key($decided, $asked), $asked, $passed, $context, $execute);
        $again = array_replace($again, $further);
        // The sidecar's approval is still open, so restore the application's approval for the next attempt.
        foreach (array_filter($again, SidecarApprovals::asked(...)) as $place => $result) {
            if (isset($used[$place])) {
                $approvals->giveBack($used[$place]);
            }
        }
        return $failed + $again;
    }

    /**
     * Returns the result of a call whose decision could not be forwarded to the sidecar; the decision remains
     * valid for the next attempt.
     */
    private static function untold(ToolResult $asked, PillionException $e): ToolResult
    {
        return new ToolResult(
            $asked->toolCallId,
            $asked->toolName,
            null,
            success: false,
            error: "The sidecar does not take the decision on the call: {$e->getMessage()}",
            errorCode: $e->errorCode,
            metadata: $asked->metadata,
        );
    }

    /**
     * Returns the result of a call that does not become pending because too many calls are already pending.
     */
    private static function unnoted(ToolResult $asked, RateLimitedException $e): ToolResult
    {
        return new ToolResult(
            $asked->toolCallId,
            $asked->toolName,
            null,
            success: false,
            error: $e->getMessage(),
            errorCode: $e->errorCode,
            metadata: array_diff_key($asked->metadata, ['approval_id' => 0, 'approval_expires_at' => 0, 'arguments' => 0]),
        );
    }

    /**
     * Returns the executor of the user named in the context, if that is another user.
     *
     * @param array<string, mixed> $context
     */
    private function other(array $context): ?self
    {
        $user = Hooks::key($context['user'] ?? null);
        return $user === null || $user === $this->user ? null : ($this->parts->getValue()[4])($user);
    }

    /**
     * @param array<string, mixed> $context
     *
     * @return array<string, mixed>
     */
    private function context(array $context): array
    {
        $user = Hooks::key($context['user'] ?? null) ?? $this->user;
        return $user === null ? $context : ['user' => $user] + $context;
    }
}
