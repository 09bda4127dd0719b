<?php

declare(strict_types=1);

namespace Pillion\Laravel\Events;

use Pillion\Laravel\Approvals\Approval;

/** A call waits for somebody's decision. */
final class ApprovalRequested
{
    public function __construct(public readonly Approval $approval)
    {
    }
}
