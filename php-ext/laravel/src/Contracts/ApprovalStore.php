<?php

declare(strict_types=1);

namespace Pillion\Laravel\Contracts;

use Pillion\Laravel\Approvals\Approval;
use Pillion\Laravel\Approvals\ApprovalStatus;

/**
 * Where approvals are kept. One that has expired is as good as gone. Each change is one step that
 * two processes cannot both make. Tenants have nothing in common: the same id in two of them is two
 * approvals; null stands for an application without tenants.
 */
interface ApprovalStore
{
    /** Keeps a pending one, unless its tenant has one of its id; says whether it was kept. */
    public function add(Approval $approval): bool;

    public function find(?string $tenant, string $id): ?Approval;

    /** @return list<Approval> those that wait for a decision, of one user if there is one; the oldest first */
    public function pending(?string $tenant, ?string $user = null): array;

    /** Decides a pending one; null when there is none. */
    public function decide(?string $tenant, string $id, ApprovalStatus $status, ?string $by): ?Approval;

    /** Takes a decision away and returns it; null when there is none (any more). */
    public function take(?string $tenant, string $id): ?ApprovalStatus;
}
