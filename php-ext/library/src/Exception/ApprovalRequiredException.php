<?php

declare(strict_types=1);

namespace Pillion\Exception;

/** A call needs approval and does not have it yet. */
class ApprovalRequiredException extends PillionException
{
    public string $errorCode = 'approval_required';
    /** Stands for this tool with exactly these arguments for this user. */
    public string $approvalId = '';
    public string $toolName = '';
    /** @var array<string, mixed> what the tool would run with */
    public array $arguments = [];
}
