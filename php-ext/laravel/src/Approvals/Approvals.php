<?php

declare(strict_types=1);

namespace Pillion\Laravel\Approvals;

use Illuminate\Contracts\Events\Dispatcher;
use Pillion\Exception\NotFoundException;
use Pillion\Laravel\Contracts\ApprovalStore;
use Pillion\Laravel\Events\ApprovalDecided;
use Pillion\Laravel\Events\ApprovalRequested;
use Pillion\Laravel\PillionManager;
use Pillion\ToolCall;

/**
 * Calls that wait for somebody's decision. Who may decide is for the application to say: check it
 * before {@see approve()} and {@see deny()}.
 */
final class Approvals
{
    public function __construct(
        private readonly ApprovalStore $store,
        private readonly Dispatcher $events,
        private readonly int $expiresAfter,
    ) {
    }

    /**
     * @param mixed $user only those of one user: a model or its key
     *
     * @return list<Approval> the oldest first
     */
    public function pending(mixed $user = null): array
    {
        return $this->store->pending(PillionManager::userKey($user));
    }

    /** One that has not expired. */
    public function find(string $id): ?Approval
    {
        return $this->store->find($id);
    }

    /**
     * Lets the call run, once.
     *
     * @param mixed $by who decides: a model or its key
     *
     * @throws NotFoundException when no such approval is pending
     */
    public function approve(string $id, mixed $by = null): Approval
    {
        return $this->decide($id, ApprovalStatus::Approved, $by);
    }

    /**
     * Ends the call as denied, which the model is told.
     *
     * @param mixed $by who decides: a model or its key
     *
     * @throws NotFoundException when no such approval is pending
     */
    public function deny(string $id, mixed $by = null): Approval
    {
        return $this->decide($id, ApprovalStatus::Denied, $by);
    }

    /**
     * What was decided on a call. A decision is used up by this: it holds for one call. A call
     * without one becomes pending.
     */
    public function claim(string $id, ToolCall $call, ?string $user): ApprovalStatus
    {
        $decision = $this->store->take($id);
        if ($decision === null) {
            $this->request($id, $call, $user);
        }
        return $decision ?? ApprovalStatus::Pending;
    }

    private function request(string $id, ToolCall $call, ?string $user): void
    {
        $arguments = is_string($call->arguments) ? json_decode($call->arguments, true) : $call->arguments;
        $now = now()->getTimestamp();
        $approval = new Approval(
            $id,
            $call->name,
            is_array($arguments) ? $arguments : [],
            $user,
            ApprovalStatus::Pending,
            $now,
            $now + $this->expiresAfter,
        );
        if ($this->store->add($approval)) {
            $this->events->dispatch(new ApprovalRequested($approval));
        }
    }

    private function decide(string $id, ApprovalStatus $status, mixed $by): Approval
    {
        $decided = $this->store->decide($id, $status, PillionManager::userKey($by));
        if ($decided === null) {
            throw new NotFoundException("No approval '$id' is pending: it is unknown, decided or expired");
        }
        $this->events->dispatch(new ApprovalDecided($decided));
        return $decided;
    }
}
