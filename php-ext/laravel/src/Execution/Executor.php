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
 * The engine's executor, with what an application adds: who calls, limits that all workers share,
 * approvals that outlive the request, and fakes.
 */
final class Executor extends ToolExecutor
{
    /**
     * Registry, approvals, admission, hooks and the executors of others: they lead to the whole
     * application, which no dump must show.
     */
    private readonly SensitiveParameterValue $parts;

    /**
     * @param array<string, mixed>  $options  those of {@see ToolExecutor}
     * @param Closure(string): self $forOther the executor of another user, with that user's credentials
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
     * Runs again what has been decided on, and notes what has not.
     *
     * @param array<int, ToolCall>   $calls   by their place
     * @param array<int, ToolResult> $results
     * @param list<PassedCall>       $passed  the admitted calls
     * @param array<string, mixed>   $context
     *
     * @return array<int, ToolResult> of the calls that ran again
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
            // An approval is used up when the call runs, after the limits; any other decision here.
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
        // What was approved of here the sidecar may ask about as well.
        $asked = array_filter($again, SidecarApprovals::asked(...));
        $further = $this->runDecided(array_intersect_key($decided, $asked), $asked, $passed, $context, $execute);
        $again = array_replace($again, $further);
        // The sidecar asks first: the application need not be asked anew.
        foreach (array_filter($again, SidecarApprovals::asked(...)) as $place => $result) {
            if (isset($used[$place])) {
                $approvals->giveBack($used[$place]);
            }
        }
        return $failed + $again;
    }

    /** A decision that the sidecar was not told: it counts when the call comes again. */
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

    /** Returns the result of a call that does not become pending, because too many calls are pending already. */
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
     * The executor of the user whom the context names, when that is somebody else.
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
