<?php

declare(strict_types=1);

namespace Pillion\Laravel\Approvals;

use Pillion\Exception\InvalidInputException;
use Pillion\Exception\PillionException;
use Pillion\Laravel\RequestServices;
use Pillion\Laravel\Tools\SidecarTool;
use Pillion\Sidecar;
use Pillion\ToolInterface;
use Pillion\ToolResult;

/**
 * Forwards the application's decisions on calls for which the sidecar requires approval.
 *
 * @internal
 */
final class SidecarApprovals
{
    /** Returns whether the sidecar, rather than the engine of this process, requires the approval. */
    public static function isRequiredBySidecar(ToolResult $result): bool
    {
        return isset($result->metadata['approval_id'], $result->metadata['approval_expires_at']);
    }

    /**
     * Forwards the application's decision to the sidecar, if the application has decided.
     *
     * @param ?Approval $approval the application's approval
     *
     * @throws PillionException when the sidecar rejects the decision
     */
    public static function forward(?Approval $approval, ?ToolInterface $tool): void
    {
        $reason = $approval?->decidedBy === null ? null : "by $approval->decidedBy";
        try {
            match ($approval?->status) {
                ApprovalStatus::Approved => self::findSidecar($tool)->approve($approval->id, $reason, $approval->approvedArguments),
                ApprovalStatus::Denied => self::findSidecar($tool)->deny($approval->id, $reason),
                ApprovalStatus::Pending, null => null,
            };
        } catch (InvalidInputException) {
            // A conflict is ignored: the sidecar already has a decision, which the next attempt of
            // the call receives.
        }
    }

    private static function findSidecar(?ToolInterface $tool): Sidecar
    {
        return $tool instanceof SidecarTool ? $tool->sidecar() : RequestServices::current()->sidecar();
    }
}
