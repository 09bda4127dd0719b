<?php

declare(strict_types=1);

namespace Pillion\Exception;

/** The call needs an approval and is not approved yet. */
class ApprovalRequiredException extends PillionException
{
    public string $errorCode = 'approval_required';
    /** The ID of the approval, which identifies the tool, its exact arguments and the user. */
    public string $approvalId = '';
    public string $toolName = '';
    /** @var array<string, mixed> the arguments that the tool would receive */
    public array $arguments = [];
}
