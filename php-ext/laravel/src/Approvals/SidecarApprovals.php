<?php

declare(strict_types=1);

namespace Pillion\Laravel\Approvals;

use Pillion\Exception\InvalidInputException;
use Pillion\Exception\PillionException;
use Pillion\Laravel\Tools\SidecarTool;
use Pillion\Laravel\Workshop;
use Pillion\Sidecar;
use Pillion\ToolInterface;
use Pillion\ToolResult;

/**
 * What the sidecar asks about calls of its tools: the application decides, and the sidecar is told.
 *
 * @internal
 */
final class SidecarApprovals
{
    /** Whether it is the sidecar that asks, and not the engine of this process. */
    public static function asked(ToolResult $result): bool
    {
        return isset($result->metadata['approval_id'], $result->metadata['approval_expires_at']);
    }

    /**
     * Tells the sidecar what has been decided, if that is so.
     *
     * @param ?Approval $approval the application's
     *
     * @throws PillionException when the sidecar does not take it
     */
    public static function tell(?Approval $approval, ?ToolInterface $tool): void
    {
        $reason = $approval?->decidedBy === null ? null : "by $approval->decidedBy";
        try {
            match ($approval?->status) {
                ApprovalStatus::Approved => self::of($tool)->approve($approval->id, $reason),
                ApprovalStatus::Denied => self::of($tool)->deny($approval->id, $reason),
                ApprovalStatus::Pending, null => null,
            };
        } catch (InvalidInputException) {
            // Somebody has decided there before: the call finds out what.
        }
    }

    private static function of(?ToolInterface $tool): Sidecar
    {
        return match (true) {
            $tool instanceof SidecarTool => $tool->sidecar(),
            extension_loaded('pillion') => Workshop::current()->sidecar(),
            // Whatever runs outside of PHP the library asks of this one.
            default => new Sidecar(),
        };
    }
}
