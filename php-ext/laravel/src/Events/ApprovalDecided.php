<?php

declare(strict_types=1);

namespace Pillion\Laravel\Events;

use Pillion\Laravel\Approvals\Approval;

/** A call was approved or denied. */
final class ApprovalDecided
{
    public function __construct(public readonly Approval $approval)
    {
    }
}
