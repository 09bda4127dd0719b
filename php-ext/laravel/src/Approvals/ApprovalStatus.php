<?php

declare(strict_types=1);

namespace Pillion\Laravel\Approvals;

enum ApprovalStatus: string
{
    /** The call has been neither approved nor denied. */
    case Pending = 'pending';
    /** The call was approved and may run once. */
    case Approved = 'approved';
    /** The call was denied: its next attempt fails, and later attempts need a new approval. */
    case Denied = 'denied';
}
