<?php

declare(strict_types=1);

namespace Pillion\Laravel\Approvals;

use Illuminate\Contracts\Events\Dispatcher;
use Pillion\Exception\NotFoundException;
use Pillion\Exception\RateLimitedException;
use Pillion\Laravel\Contracts\ApprovalStore;
use Pillion\Laravel\Contracts\CountsPending;
use Pillion\Laravel\Events\ApprovalDecided;
use Pillion\Laravel\Events\ApprovalRequested;
use Pillion\Laravel\Hooks;
use Pillion\ToolResult;
use SensitiveParameterValue;

/**
 * Calls of one tenant that wait for somebody's decision. Who may decide is for the application to say: check it
 * before {@see approve()} and {@see deny()}.
 */
final class Approvals
{
    /** Store and events: they lead to the whole application, which no dump must show. */
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

    /** @param mixed $tenant a model or its key; null for an application without tenants */
    public function forTenant(mixed $tenant): self
    {
        return new self($this->store(), $this->events(), $this->expiresAfter, Hooks::key($tenant), $this->maxPending, $this->maxPendingPerUser);
    }

    /**
     * Everybody's, for those who may see all of them.
     *
     * @return list<Approval> the oldest first
     */
    public function pending(): array
    {
        // An argument would be ignored silently, and show one user the calls of all.
        if (func_num_args() > 0) {
            throw new \ArgumentCountError('pending() lists the calls of everybody: use pendingFor($user)');
        }
        return $this->store()->pending($this->tenant);
    }

    /**
     * Those of one user.
     *
     * @param mixed $user a model or its key; null, as of a visitor who is not logged in, has none
     *
     * @return list<Approval> the oldest first
     */
    public function pendingFor(mixed $user): array
    {
        $key = Hooks::key($user);
        return $key === null ? [] : $this->store()->pending($this->tenant, $key);
    }

    /** One that has not expired. */
    public function find(string $id): ?Approval
    {
        return $this->store()->find($this->tenant, $id);
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
     * What was decided on a call that ended as `approval_required`. A decision is used up by this: it
     * holds for one call. A call without one becomes pending.
     *
     * @throws RateLimitedException when the call would become pending, but too many calls are pending already
     */
    public function claim(ToolResult $result, ?string $user): ApprovalStatus
    {
        $id = $result->metadata['approval_id'];
        $decision = $this->store()->take($this->tenant, $id);
        if ($decision === null) {
            $this->request($id, $result->toolName, $result->metadata['arguments'] ?? [], $user);
        }
        return $decision ?? ApprovalStatus::Pending;
    }

    /** Makes an approval good again that {@see claim()} has used up for a call that did not run. */
    public function giveBack(Approval $used): void
    {
        $asked = new Approval(
            $used->id,
            $used->tool,
            $used->arguments,
            $used->user,
            ApprovalStatus::Pending,
            $used->createdAt,
            $used->expiresAt,
            tenant: $this->tenant,
        );
        if ($this->store()->add($asked)) {
            $this->store()->decide($this->tenant, $used->id, ApprovalStatus::Approved, $used->decidedBy);
        }
    }

    public function __serialize(): array
    {
        throw new \LogicException('A store of approvals is not serialised: a job has its own, Pillion::approvals()');
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
    private function checkRoom(?string $user): void
    {
        if ($this->maxPending === null && $this->maxPendingPerUser === null) {
            return;
        }
        $store = $this->store();
        if ($store instanceof CountsPending) {
            $count = $store->countPending($this->tenant, $user);
        } else {
            $all = $store->pending($this->tenant);
            $own = array_filter($all, fn (Approval $approval) => $approval->user === $user);
            $count = ['all' => count($all), 'user' => count($own)];
        }
        if ($count['user'] >= ($this->maxPendingPerUser ?? PHP_INT_MAX)) {
            throw self::tooMany("$count[user] calls of this user wait for approval already");
        }
        if ($count['all'] >= ($this->maxPending ?? PHP_INT_MAX)) {
            throw self::tooMany("$count[all] calls wait for approval already");
        }
    }

    private static function tooMany(string $message): RateLimitedException
    {
        return new RateLimitedException("$message: they have to be decided first");
    }

    /**
     * @param array<string, mixed> $arguments
     *
     * @throws RateLimitedException
     */
    private function request(string $id, string $tool, array $arguments, ?string $user): void
    {
        if ($this->find($id) !== null) {
            return;
        }
        $this->checkRoom($user);
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
        $decided = $this->store()->decide($this->tenant, $id, $status, Hooks::key($by));
        if ($decided === null) {
            throw new NotFoundException("No approval '$id' is pending: it is unknown, decided or expired");
        }
        $this->events()->dispatch(new ApprovalDecided($decided));
        return $decided;
    }
}
