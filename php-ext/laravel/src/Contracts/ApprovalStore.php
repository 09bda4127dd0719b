<?php

declare(strict_types=1);

namespace Pillion\Laravel\Contracts;

use Pillion\Laravel\Approvals\Approval;
use Pillion\Laravel\Approvals\ApprovalStatus;

/**
 * Stores approvals. An expired approval counts as deleted. Each change must be atomic across processes.
 * Tenants are separate: the same ID in two tenants is two approvals; null means an application without
 * tenants.
 */
interface ApprovalStore
{
    /**
     * Adds a pending approval, unless the tenant already has one with the same ID. Returns whether it was
     * added.
     */
    public function add(Approval $approval): bool;

    public function find(?string $tenant, string $id): ?Approval;

    /** @return list<Approval> the pending approvals, of one user if given; oldest first */
    public function pending(?string $tenant, ?string $user = null): array;

    /** Decides a pending approval; returns null if there is none. */
    public function decide(?string $tenant, string $id, ApprovalStatus $status, ?string $by): ?Approval;

    /** Removes and returns a decision; null if there is none. */
    public function take(?string $tenant, string $id): ?ApprovalStatus;
}
