<?php

declare(strict_types=1);

namespace Pillion\Laravel\Contracts;

use Pillion\Laravel\Approvals\Approval;

/** An {@see ApprovalStore} whose approvers may change the arguments of a call. */
interface StoresApprovedArguments
{
    /**
     * Approves a pending approval with changed arguments and returns it; returns null if no such
     * approval is pending.
     *
     * @param array<string, mixed> $arguments replace the call's original arguments
     */
    public function approveWith(?string $tenant, string $id, ?string $by, array $arguments): ?Approval;
}
