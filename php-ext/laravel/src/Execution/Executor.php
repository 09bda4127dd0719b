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
     * The registry, approvals, admission, hooks and the factory that creates the executors of other
     * users. They are hidden from dumps, because they reference the whole application.
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
        $otherExecutor = $this->findOtherExecutor($context);
        return $otherExecutor !== null ? $otherExecutor->executeAll($calls, $context) : $this->run(
            $calls,
            $context,
            fn (array $calls, array $context) => parent::executeAll($calls, $context),
        );
    }

    public function executeParallel(array $calls, array $context = []): array
    {
        $otherExecutor = $this->findOtherExecutor($context);
        return $otherExecutor !== null ? $otherExecutor->executeParallel($calls, $context) : $this->run(
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
        $parsedCalls = CallReader::readAll($calls);
        $userContext = $this->addUser($context);
        foreach ($parsedCalls as $call) {
            $hooks->fake?->fakeIfNeeded($call, $tools);
        }
        [$results, $admittedCalls] = $this->services->getValue()[2]->runCalls([], [], fn () => $execute($parsedCalls, $userContext));
        return array_replace($results, $this->runDecided($parsedCalls, $results, $admittedCalls, $userContext, $execute));
    }

    /**
     * Runs the approved and denied calls again, and records the other calls as pending.
     *
     * @param array<int, ToolCall>   $calls    by index
     * @param array<int, ToolResult> $results
     * @param list<AdmittedCall>     $admittedCalls
     * @param array<string, mixed>   $context
     *
     * @return array<int, ToolResult> the results of the calls that ran again or failed
     */
    private function runDecided(array $calls, array $results, array $admittedCalls, array $context, Closure $execute): array
    {
        [$tools, $approvals, $admission] = $this->services->getValue();
        $failedResults = $decidedCalls = $approvedResults = $readmittedCalls = $usedApprovals = [];
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
                } catch (PillionException $exception) {
                    $failedResults[$index] = self::forwardingFailure($result, $exception);
                    continue;
                }
            }
            // Every decision is consumed here, except an approval by the application, which
            // `Admission` consumes after the limits were checked.
            $status = !$isRequiredBySidecar && $approval?->status === ApprovalStatus::Approved
                ? ApprovalStatus::Approved
                : self::claim($approvals, $result, $context['user'] ?? null);
            if ($status instanceof ToolResult) {
                $failedResults[$index] = $status;
                continue;
            }
            if ($status === ApprovalStatus::Pending) {
                continue;
            }
            $decidedCalls[$index] = $call;
            if ($isRequiredBySidecar) {
                $readmittedCalls[] = [$call->id, $tool?->getName() ?? $call->name];
                continue;
            }
            if ($approval?->status === ApprovalStatus::Approved) {
                $approvedResults[$id] = $result;
                $usedApprovals[$index] = $approval;
            }
            $arguments = $status === ApprovalStatus::Approved ? $approval?->approvedArguments : null;
            if ($arguments !== null) {
                $context['approved'][$id] = $arguments;
            } else {
                $context[$status === ApprovalStatus::Approved ? 'approved' : 'denied'][] = $id;
            }
        }
        if ($decidedCalls === []) {
            return $failedResults;
        }
        $run = fn () => $execute(array_values($decidedCalls), $context);
        [$resultList, $nextAdmittedCalls] = $admission->runCalls($approvedResults, AdmittedCall::filter($admittedCalls, $readmittedCalls), $run);
        $firstResults = array_combine(array_keys($decidedCalls), $resultList);
        // A call that the application approved may still need the sidecar's approval, so the
        // decision is forwarded to the sidecar.
        $unapprovedResults = array_filter($firstResults, SidecarApprovals::isRequiredBySidecar(...));
        $unapprovedCalls = array_intersect_key($decidedCalls, $unapprovedResults);
        $newResults = array_replace(
            $firstResults,
            $this->runDecided($unapprovedCalls, $unapprovedResults, $nextAdmittedCalls, $context, $execute),
        );
        // If the sidecar still requires approval, the application's approval is restored for the
        // next attempt.
        foreach (array_filter($newResults, SidecarApprovals::isRequiredBySidecar(...)) as $index => $result) {
            if (isset($usedApprovals[$index])) {
                $approvals->restore($usedApprovals[$index]);
            }
        }
        return $failedResults + $newResults;
    }

    /**
     * Returns and consumes the decision on a call. Returns a failed result if too many calls are
     * already pending.
     */
    private static function claim(Approvals $approvals, ToolResult $result, ?string $user): ApprovalStatus|ToolResult
    {
        try {
            return $approvals->claim($result, $user);
        } catch (RateLimitedException $exception) {
            $approvalKeys = ['approval_id' => 0, 'approval_expires_at' => 0, 'arguments' => 0];
            return self::failedResult($result, $exception, $exception->getMessage(), array_diff_key($result->metadata, $approvalKeys));
        }
    }

    /**
     * Returns the result of a call whose decision could not be forwarded to the sidecar; the decision remains
     * valid for the next attempt.
     */
    private static function forwardingFailure(ToolResult $result, PillionException $exception): ToolResult
    {
        $message = "The decision on the call could not be forwarded to the sidecar: {$exception->getMessage()}";
        return self::failedResult($result, $exception, $message, $result->metadata);
    }

    /** @param array<string, mixed> $metadata */
    private static function failedResult(ToolResult $result, PillionException $exception, string $message, array $metadata): ToolResult
    {
        return ToolResult::failure($message, $exception->errorCode, $result->toolCallId, $result->toolName, metadata: $metadata);
    }

    /**
     * Returns the executor of the user named in the context; null if the context names no user or
     * the user of this executor.
     *
     * @param array<string, mixed> $context
     */
    private function findOtherExecutor(array $context): ?self
    {
        $user = Hooks::key($context['user'] ?? null);
        return $user === null || $user === $this->user ? null : ($this->services->getValue()[4])($user);
    }

    /**
     * @param array<string, mixed> $context
     *
     * @return array<string, mixed>
     */
    private function addUser(array $context): array
    {
        $user = Hooks::key($context['user'] ?? null) ?? $this->user;
        return $user === null ? $context : ['user' => $user] + $context;
    }
}
