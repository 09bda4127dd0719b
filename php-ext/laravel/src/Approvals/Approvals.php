<?php

declare(strict_types=1);

namespace Pillion\Laravel\Approvals;

use Illuminate\Contracts\Events\Dispatcher;
use Pillion\Exception\NotFoundException;
use Pillion\Exception\RateLimitedException;
use Pillion\Laravel\Contracts\ApprovalStore;
use Pillion\Laravel\Contracts\CountsPending;
use Pillion\Laravel\Contracts\StoresApprovedArguments;
use Pillion\Laravel\Events\ApprovalDecided;
use Pillion\Laravel\Events\ApprovalRequested;
use Pillion\Laravel\Hooks;
use Pillion\ToolResult;
use SensitiveParameterValue;

/**
 * The approvals of one tenant. The application must check the user's permission before it calls
 * {@see approve()} or {@see deny()}.
 */
final class Approvals
{
    /**
     * The approval store and the event dispatcher. They are hidden from dumps, because they
     * reference the whole application.
     */
    private readonly SensitiveParameterValue $services;

    public function __construct(
        ApprovalStore $store,
        Dispatcher $events,
        private readonly int $expiresAfter,
        private readonly ?string $tenant = null,
        private readonly ?int $maxPending = null,
        private readonly ?int $maxPendingPerUser = null,
    ) {
        $this->services = new SensitiveParameterValue([$store, $events]);
    }

    /** @param mixed $tenant an Eloquent model or its key; null without tenants */
    public function forTenant(mixed $tenant): self
    {
        return new self($this->store(), $this->events(), $this->expiresAfter, Hooks::key($tenant), $this->maxPending, $this->maxPendingPerUser);
    }

    /**
     * Returns the pending approvals of all users. Show the list only to users who may see the calls
     * of all users.
     *
     * @return list<Approval> oldest first
     */
    public function pending(): array
    {
        // This method rejects any argument: otherwise, PHP would silently ignore a user passed by
        // mistake, and that user would see the calls of all users.
        if (func_num_args() > 0) {
            throw new \ArgumentCountError('pending() takes no arguments and returns the approvals of all users: use pendingFor($user)');
        }
        return $this->store()->pending($this->tenant);
    }

    /**
     * Returns the pending approvals of one user.
     *
     * @param mixed $user an Eloquent model or its key; null (a visitor who is not logged in) has no approvals
     *
     * @return list<Approval> oldest first
     */
    public function pendingFor(mixed $user): array
    {
        $key = Hooks::key($user);
        return $key === null ? [] : $this->store()->pending($this->tenant, $key);
    }

    /** Returns the approval, unless it has expired. */
    public function find(string $id): ?Approval
    {
        return $this->store()->find($this->tenant, $id);
    }

    /**
     * Approves the call for one run.
     *
     * @param mixed                 $by        the approver: an Eloquent model or its key
     * @param ?array<string, mixed> $arguments replace the call's original arguments; the executor
     *                                         checks them against the tool's schema
     *
     * @throws NotFoundException when no such approval is pending
     */
    public function approve(string $id, mixed $by = null, ?array $arguments = null): Approval
    {
        if ($arguments === null || $arguments === $this->find($id)?->arguments) {
            return $this->decide($id, ApprovalStatus::Approved, $by);
        }
        $store = $this->store();
        if (!$store instanceof StoresApprovedArguments) {
            throw new \LogicException($store::class . ' must implement ' . StoresApprovedArguments::class . ' so that approvers can change arguments');
        }
        return $this->dispatchDecision($id, $store->approveWith($this->tenant, $id, Hooks::key($by), $arguments));
    }

    /**
     * Denies the call. The model receives the denial as the result of the call.
     *
     * @param mixed $by the approver: an Eloquent model or its key
     *
     * @throws NotFoundException when no such approval is pending
     */
    public function deny(string $id, mixed $by = null): Approval
    {
        return $this->decide($id, ApprovalStatus::Denied, $by);
    }

    /**
     * Returns the decision on a call that ended with `approval_required`, and consumes the
     * decision, which is valid for one call. A call without a decision becomes pending.
     *
     * @throws RateLimitedException when the call would become pending, but too many calls are pending already
     */
    public function claim(ToolResult $result, ?string $user): ApprovalStatus
    {
        $id = $result->metadata['approval_id'];
        $decision = $this->store()->take($this->tenant, $id);
        if ($decision === null) {
            $this->addPending($id, $result->toolName, $result->metadata['arguments'] ?? [], $user);
        }
        return $decision ?? ApprovalStatus::Pending;
    }

    /** Restores an approval that {@see claim()} has consumed, because the call did not run. */
    public function restore(Approval $claimedApproval): void
    {
        $pendingApproval = new Approval(
            $claimedApproval->id,
            $claimedApproval->tool,
            $claimedApproval->arguments,
            $claimedApproval->user,
            ApprovalStatus::Pending,
            $claimedApproval->createdAt,
            $claimedApproval->expiresAt,
            tenant: $this->tenant,
        );
        $store = $this->store();
        if (!$store->add($pendingApproval)) {
            return;
        }
        if ($claimedApproval->approvedArguments !== null && $store instanceof StoresApprovedArguments) {
            $store->approveWith($this->tenant, $claimedApproval->id, $claimedApproval->decidedBy, $claimedApproval->approvedArguments);
        } else {
            $store->decide($this->tenant, $claimedApproval->id, ApprovalStatus::Approved, $claimedApproval->decidedBy);
        }
    }

    public function __serialize(): array
    {
        throw new \LogicException('Approvals cannot be serialized: call Pillion::approvals() in the job');
    }

    private function store(): ApprovalStore
    {
        return $this->services->getValue()[0];
    }

    private function events(): Dispatcher
    {
        return $this->services->getValue()[1];
    }

    /** @throws RateLimitedException */
    private function checkPendingLimits(?string $user): void
    {
        if ($this->maxPending === null && $this->maxPendingPerUser === null) {
            return;
        }
        $store = $this->store();
        if ($store instanceof CountsPending) {
            $counts = $store->countPending($this->tenant, $user);
        } else {
            $pendingApprovals = $store->pending($this->tenant);
            $userApprovals = array_filter($pendingApprovals, fn (Approval $approval) => $approval->user === $user);
            $counts = ['all' => count($pendingApprovals), 'user' => count($userApprovals)];
        }
        if ($counts['user'] >= ($this->maxPendingPerUser ?? PHP_INT_MAX)) {
            throw self::tooManyPending("$counts[user] calls of this user already wait for approval");
        }
        if ($counts['all'] >= ($this->maxPending ?? PHP_INT_MAX)) {
            throw self::tooManyPending("$counts[all] calls already wait for approval");
        }
    }

    private static function tooManyPending(string $message): RateLimitedException
    {
        return new RateLimitedException("$message: approve or deny one of them first");
    }

    /**
     * @param array<string, mixed> $arguments
     *
     * @throws RateLimitedException
     */
    private function addPending(string $id, string $tool, array $arguments, ?string $user): void
    {
        if ($this->find($id) !== null) {
            return;
        }
        $this->checkPendingLimits($user);
        $now = now()->getTimestamp();
        $approval = new Approval(
            $id,
            $tool,
            $arguments,
            $user,
            ApprovalStatus::Pending,
            $now,
            $now + $this->expiresAfter,
            tenant: $this->tenant,
        );
        if ($this->store()->add($approval)) {
            $this->events()->dispatch(new ApprovalRequested($approval));
        }
    }

    private function decide(string $id, ApprovalStatus $status, mixed $by): Approval
    {
        return $this->dispatchDecision($id, $this->store()->decide($this->tenant, $id, $status, Hooks::key($by)));
    }

    /** @throws NotFoundException */
    private function dispatchDecision(string $id, ?Approval $approval): Approval
    {
        if ($approval === null) {
            throw new NotFoundException("No pending approval '$id': it does not exist, is already decided, or has expired");
        }
        $this->events()->dispatch(new ApprovalDecided($approval));
        return $approval;
    }
}
