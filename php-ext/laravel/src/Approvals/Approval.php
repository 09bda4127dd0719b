<?php

declare(strict_types=1);

namespace Pillion\Laravel\Approvals;

use Illuminate\Contracts\Support\Arrayable;
use JsonSerializable;

/**
 * A tool call that needs approval. The approval's ID is derived from the tool, the exact arguments
 * and the user, within one tenant. The ID is not secret: knowing it does not permit a user to
 * approve the call.
 *
 * @implements Arrayable<string, mixed>
 */
final class Approval implements Arrayable, JsonSerializable
{
    /**
     * @param array<string, mixed> $arguments
     * @param int                  $createdAt Unix time in seconds, as are `$expiresAt` and `$decidedAt`
     * @param ?string              $decidedBy who approved or denied the call
     * @param ?string              $tenant    the tenant of the user and the decision; null without tenants
     * @param ?array<string, mixed> $approvedArguments the arguments with which the approved call runs, if the approver
     *                                                 changed them
     */
    public function __construct(
        public readonly string $id,
        public readonly string $tool,
        public readonly array $arguments,
        public readonly ?string $user,
        public readonly ApprovalStatus $status,
        public readonly int $createdAt,
        public readonly int $expiresAt,
        public readonly ?string $decidedBy = null,
        public readonly ?int $decidedAt = null,
        public readonly ?string $tenant = null,
        public readonly ?array $approvedArguments = null,
    ) {
    }

    /** @internal Returns the key of an approval in a store. */
    public static function storageKey(?string $tenant, string $id): string
    {
        return hash('sha256', serialize([$tenant, $id]));
    }

    public function isPending(): bool
    {
        return $this->status === ApprovalStatus::Pending && !$this->hasExpired();
    }

    public function hasExpired(): bool
    {
        return $this->expiresAt <= now()->getTimestamp();
    }

    /** @param ?array<string, mixed> $arguments */
    public function withDecision(ApprovalStatus $status, ?string $by, ?array $arguments = null): self
    {
        return new self(
            $this->id,
            $this->tool,
            $this->arguments,
            $this->user,
            $status,
            $this->createdAt,
            $this->expiresAt,
            $by,
            now()->getTimestamp(),
            $this->tenant,
            $arguments,
        );
    }

    /**
     * @return array{id: string, tool: string, arguments: array<string, mixed>, user: ?string, status: string,
     *     created_at: int, expires_at: int, decided_by: ?string, decided_at: ?int, tenant: ?string,
     *     approved_arguments: ?array<string, mixed>}
     */
    public function toArray(): array
    {
        return [
            'id' => $this->id,
            'tool' => $this->tool,
            'arguments' => $this->arguments,
            'user' => $this->user,
            'status' => $this->status->value,
            'created_at' => $this->createdAt,
            'expires_at' => $this->expiresAt,
            'decided_by' => $this->decidedBy,
            'decided_at' => $this->decidedAt,
            'tenant' => $this->tenant,
            'approved_arguments' => $this->approvedArguments,
        ];
    }

    /** @param array<string, mixed> $row the result of {@see toArray()} */
    public static function fromArray(array $row): self
    {
        return new self(
            $row['id'],
            $row['tool'],
            $row['arguments'],
            $row['user'],
            ApprovalStatus::from($row['status']),
            (int) $row['created_at'],
            (int) $row['expires_at'],
            $row['decided_by'],
            $row['decided_at'] === null ? null : (int) $row['decided_at'],
            $row['tenant'],
            $row['approved_arguments'] ?? null,
        );
    }

    /** @return array<string, mixed> */
    public function jsonSerialize(): array
    {
        // Empty arguments become an object, because `json_encode` would write an empty PHP array as
        // a list.
        $approvedArguments = $this->approvedArguments === null ? null : (object) $this->approvedArguments;
        return ['arguments' => (object) $this->arguments, 'approved_arguments' => $approvedArguments] + $this->toArray();
    }
}
