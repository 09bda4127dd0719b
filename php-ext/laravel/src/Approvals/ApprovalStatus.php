<?php

declare(strict_types=1);

namespace Pillion\Laravel\Approvals;

enum ApprovalStatus: string
{
    /** The approval is undecided. */
    case Pending = 'pending';
    /** The call may run once. */
    case Approved = 'approved';
    /** The next attempt of the call is denied, once. */
    case Denied = 'denied';
}
