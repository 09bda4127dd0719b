<?php

declare(strict_types=1);

namespace Pillion\Laravel\Contracts;

/** An {@see ApprovalStore} that counts pending approvals without loading them. */
interface CountsPending
{
    /**
     * @param ?string $user the user whose approvals are counted separately; null for approvals without a user
     *
     * @return array{all: int, user: int} the number of pending approvals of the tenant, and of the user
     */
    public function countPending(?string $tenant, ?string $user): array;
}
