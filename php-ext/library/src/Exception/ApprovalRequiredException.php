<?php

declare(strict_types=1);

namespace Pillion\Exception;

/** The call needs an approval that it does not have yet. */
class ApprovalRequiredException extends PillionException
{
    public string $errorCode = 'approval_required';
    /** Identifies this tool with exactly these arguments for this user. */
    public string $approvalId = '';
    public string $toolName = '';
    /** @var array<string, mixed> the arguments that the tool would receive */
    public array $arguments = [];
}
