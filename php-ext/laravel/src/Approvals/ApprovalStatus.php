<?php

declare(strict_types=1);

namespace Pillion\Laravel\Approvals;

enum ApprovalStatus: string
{
    /** Nobody has decided yet. */
    case Pending = 'pending';
    /** The call may run once. */
    case Approved = 'approved';
    /** The call ends as denied, once. */
    case Denied = 'denied';
}
