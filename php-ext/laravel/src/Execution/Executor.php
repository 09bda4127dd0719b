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
    private readonly SensitiveParameterValue $services;

    /**
     * @param array<string, mixed>  $options     options of {@see ToolExecutor}
     * @param Closure(string): self $executorFor returns the executor of another user, with that user's credentials
     */
    public function __construct(
        ToolRegistry $tools,
        array $options,
        Approvals $approvals,
        Admission $admission,
        Hooks $hooks,
        private readonly ?string $user,
        Closure $executorFor,
    ) {
        $this->services = new SensitiveParameterValue([$tools, $approvals, $admission, $hooks, $executorFor]);
        $options['before'] = new HiddenCallable($admission->before(...));
        if (is_callable($options['approve'] ?? null)) {
            $options['approve'] = new HiddenCallable($options['approve']);
        }
        parent::__construct($tools, $options);
    }

    public function __serialize(): array
    {
        throw new \LogicException('An executor cannot be serialized: call Pillion::executor() in the job');
    }

    public function execute(ToolCall|array $call, array $context = []): ToolResult
    {
        return $this->executeAll([$call], $context)[0];
    }

    public function executeAll(array $calls, array $context = []): array
    {
        $other = $this->executorOfOtherUser($context);
        return $other !== null ? $other->executeAll($calls, $context) : $this->run(
            $calls,
            $context,
            fn (array $calls, array $context) => parent::executeAll($calls, $context),
        );
    }

    public function executeParallel(array $calls, array $context = []): array
    {
        $other = $this->executorOfOtherUser($context);
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
        [$tools, , , $hooks] = $this->services->getValue();
        $calls = CallReader::readAll($calls);
        $context = $this->context($context);
        foreach ($calls as $call) {
            $hooks->fake?->fakeIfNeeded($call, $tools);
        }
        [$results, $admitted] = $this->services->getValue()[2]->runWith([], [], fn () => $execute($calls, $context));
        return array_replace($results, $this->runDecided($calls, $results, $admitted, $context, $execute));
    }

    /**
     * Runs the decided calls again, and records the undecided ones as pending.
     *
     * @param array<int, ToolCall>   $calls    by position
     * @param array<int, ToolResult> $results
     * @param list<AdmittedCall>     $admitted the admitted calls
     * @param array<string, mixed>   $context
     *
     * @return array<int, ToolResult> the results of the calls that ran again or failed
     */
    private function runDecided(array $calls, array $results, array $admitted, array $context, Closure $execute): array
    {
        [$tools, $approvals, $admission] = $this->services->getValue();
        $failed = $decided = $approved = $readmitted = $used = [];
        foreach ($calls as $index => $call) {
            $result = $results[$index];
            $id = $result->metadata['approval_id'] ?? null;
            if ($result->errorCode !== 'approval_required' || !is_string($id)) {
                continue;
            }
            $approval = $approvals->find($id);
            $tool = $tools->get($call->name);
            $isRequiredBySidecar = SidecarApprovals::isRequiredBySidecar($result);
            if ($isRequiredBySidecar) {
                try {
                    SidecarApprovals::forward($approval, $tool);
                } catch (PillionException $e) {
                    $failed[$index] = self::forwardingFailed($result, $e);
                    continue;
                }
            }
            // An approval of the application is consumed by `Admission` after the limits were
            // checked; any other decision is consumed here.
            $status = !$isRequiredBySidecar && $approval?->status === ApprovalStatus::Approved
                ? ApprovalStatus::Approved
                : self::claim($approvals, $result, $context['user'] ?? null);
            if ($status instanceof ToolResult) {
                $failed[$index] = $status;
                continue;
            }
            if ($status === ApprovalStatus::Pending) {
                continue;
            }
            $decided[$index] = $call;
            if ($isRequiredBySidecar) {
                $readmitted[] = [$call->id, $tool?->getName() ?? $call->name];
                continue;
            }
            if ($approval?->status === ApprovalStatus::Approved) {
                $approved[$id] = $result;
                $used[$index] = $approval;
            }
            $arguments = $status === ApprovalStatus::Approved ? $approval?->approvedArguments : null;
            if ($arguments !== null) {
                $context['approved'][$id] = $arguments;
            } else {
                $context[$status === ApprovalStatus::Approved ? 'approved' : 'denied'][] = $id;
            }
        }
        if ($decided === []) {
            return $failed;
        }
        $run = fn () => $execute(array_values($decided), $context);
        [$rerun, $admitted] = $admission->runWith($approved, AdmittedCall::filter($admitted, $readmitted), $run);
        $rerun = array_combine(array_keys($decided), $rerun);
        // The sidecar may require approval for a call that the application approved.
        $stillRequired = array_filter($rerun, SidecarApprovals::isRequiredBySidecar(...));
        $rerunBySidecar = $this->runDecided(array_intersect_key($decided, $stillRequired), $stillRequired, $admitted, $context, $execute);
        $rerun = array_replace($rerun, $rerunBySidecar);
        // If the sidecar still requires approval, the application's approval is restored for the
        // next attempt.
        foreach (array_filter($rerun, SidecarApprovals::isRequiredBySidecar(...)) as $index => $result) {
            if (isset($used[$index])) {
                $approvals->restore($used[$index]);
            }
        }
        return $failed + $rerun;
    }

    /** Claims the decision on a call, or returns a failed result if too many calls are already pending. */
    private static function claim(Approvals $approvals, ToolResult $result, ?string $user): ApprovalStatus|ToolResult
    {
        try {
            return $approvals->claim($result, $user);
        } catch (RateLimitedException $e) {
            $approvalKeys = ['approval_id' => 0, 'approval_expires_at' => 0, 'arguments' => 0];
            return self::failed($result, $e, $e->getMessage(), array_diff_key($result->metadata, $approvalKeys));
        }
    }

    /**
     * Returns the result of a call whose decision could not be forwarded to the sidecar; the decision remains
     * valid for the next attempt.
     */
    private static function forwardingFailed(ToolResult $result, PillionException $e): ToolResult
    {
        $message = "The decision on the call could not be forwarded to the sidecar: {$e->getMessage()}";
        return self::failed($result, $e, $message, $result->metadata);
    }

    /** @param array<string, mixed> $metadata */
    private static function failed(ToolResult $result, PillionException $e, string $message, array $metadata): ToolResult
    {
        return ToolResult::failure($message, $e->errorCode, $result->toolCallId, $result->toolName, metadata: $metadata);
    }

    /**
     * Returns the executor of the user named in the context, if that is another user.
     *
     * @param array<string, mixed> $context
     */
    private function executorOfOtherUser(array $context): ?self
    {
        $user = Hooks::key($context['user'] ?? null);
        return $user === null || $user === $this->user ? null : ($this->services->getValue()[4])($user);
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
