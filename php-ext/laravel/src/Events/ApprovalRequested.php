<?php

declare(strict_types=1);

namespace Pillion\Laravel\Events;

use Pillion\Laravel\Approvals\Approval;

/** The event that reports that a tool call waits for approval. */
final class ApprovalRequested
{
    public function __construct(public readonly Approval $approval)
    {
    }
}
