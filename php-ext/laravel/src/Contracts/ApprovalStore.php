<?php

declare(strict_types=1);

namespace Pillion\Laravel\Contracts;

use Pillion\Laravel\Approvals\Approval;
use Pillion\Laravel\Approvals\ApprovalStatus;

/**
 * Stores approvals. An expired approval counts as deleted. Each change must be atomic across
 * processes. Tenants are separate: two tenants may have different approvals with the same ID. The
 * tenant is null in an application without tenants.
 */
interface ApprovalStore
{
    /**
     * Adds a pending approval, unless the tenant already has an approval with the same ID. Returns whether the
     * approval was added.
     */
    public function add(Approval $approval): bool;

    public function find(?string $tenant, string $id): ?Approval;

    /** @return list<Approval> the pending approvals, of one user if given; oldest first */
    public function pending(?string $tenant, ?string $user = null): array;

    /**
     * Approves or denies a pending approval and returns it; returns null if no such approval is
     * pending.
     */
    public function decide(?string $tenant, string $id, ApprovalStatus $status, ?string $by): ?Approval;

    /** Removes and returns the decision on an approval; null if the approval is undecided or does not exist. */
    public function take(?string $tenant, string $id): ?ApprovalStatus;
}
