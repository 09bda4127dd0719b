<?php

declare(strict_types=1);

namespace Pillion\Laravel\Events;

use Pillion\Laravel\Approvals\Approval;

/** Somebody approved or denied a call. */
final class ApprovalDecided
{
    public function __construct(public readonly Approval $approval)
    {
    }
}
