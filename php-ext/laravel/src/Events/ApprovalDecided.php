<?php

declare(strict_types=1);

namespace Pillion\Laravel\Events;

use Pillion\Laravel\Approvals\Approval;

/** The event that reports that a tool call was approved or denied. */
final class ApprovalDecided
{
    public function __construct(public readonly Approval $approval)
    {
    }
}
