<?php

declare(strict_types=1);

namespace Pillion\Laravel\Contracts;

use Pillion\Laravel\Approvals\Approval;

/** An {@see ApprovalStore} whose approvers may change the arguments of a call. */
interface StoresApprovedArguments
{
    /**
     * Approves a pending approval with other arguments; returns null if there is none.
     *
     * @param array<string, mixed> $arguments the arguments with which the call runs instead of its own
     */
    public function approveWith(?string $tenant, string $id, ?string $by, array $arguments): ?Approval;
}
