<?php

declare(strict_types=1);

namespace Pillion\Laravel\Approvals;

use Illuminate\Database\ConnectionInterface;
use Illuminate\Database\Query\Builder;
use Pillion\Laravel\Contracts\ApprovalStore;
use Pillion\Laravel\Contracts\CountsPending;
use Pillion\Laravel\Contracts\StoresApprovedArguments;

/**
 * Stores approvals in a database table. `vendor:publish --tag=pillion-migrations` publishes the migration.
 */
final class DatabaseApprovalStore implements ApprovalStore, CountsPending, StoresApprovedArguments
{
    public function __construct(
        private readonly ConnectionInterface $connection,
        private readonly string $table,
    ) {
    }

    public function add(Approval $approval): bool
    {
        $row = [
            'arguments' => json_encode((object) $approval->arguments, JSON_THROW_ON_ERROR),
            'approved_arguments' => null,
            'storage_key' => Approval::storageKey($approval->tenant, $approval->id),
        ] + $approval->toArray();
        // An expired approval with the same key would prevent the insert. Other expired approvals only take space.
        $this->table()->where('expires_at', '<=', now()->getTimestamp())->delete();
        return $this->table()->insertOrIgnore($row) === 1;
    }

    public function find(?string $tenant, string $id): ?Approval
    {
        $row = $this->matching($tenant, $id)->first();
        return $row === null ? null : self::approval($row);
    }

    public function pending(?string $tenant, ?string $user = null): array
    {
        $rows = $this->unexpired()->where('status', ApprovalStatus::Pending->value)->where('tenant', $tenant)
            ->orderBy('created_at')->orderBy('id');
        if ($user !== null) {
            $rows->where('user', $user);
        }
        // The tenant and the user are compared again in PHP, because the database collation may
        // treat `A` and `a` as equal.
        return $rows->get()->map([self::class, 'approval'])->filter(
            fn (Approval $approval) => $approval->tenant === $tenant && ($user === null || $approval->user === $user),
        )->values()->all();
    }

    public function countPending(?string $tenant, ?string $user): array
    {
        $pending = fn () => $this->unexpired()->where('status', ApprovalStatus::Pending->value)->where('tenant', $tenant);
        return ['all' => $pending()->count(), 'user' => $pending()->where('user', $user)->count()];
    }

    public function decide(?string $tenant, string $id, ApprovalStatus $status, ?string $by): ?Approval
    {
        return $this->change($tenant, $id, ['status' => $status->value, 'decided_by' => $by]);
    }

    public function approveWith(?string $tenant, string $id, ?string $by, array $arguments): ?Approval
    {
        return $this->change($tenant, $id, [
            'status' => ApprovalStatus::Approved->value,
            'decided_by' => $by,
            'approved_arguments' => json_encode((object) $arguments, JSON_THROW_ON_ERROR),
        ]);
    }

    /** @param array<string, ?string> $decision */
    private function change(?string $tenant, string $id, array $decision): ?Approval
    {
        $changed = $this->matching($tenant, $id)->where('status', ApprovalStatus::Pending->value)
            ->update($decision + ['decided_at' => now()->getTimestamp()]);
        return $changed === 1 ? $this->find($tenant, $id) : null;
    }

    public function take(?string $tenant, string $id): ?ApprovalStatus
    {
        foreach ([ApprovalStatus::Denied, ApprovalStatus::Approved] as $status) {
            if ($this->matching($tenant, $id)->where('status', $status->value)->delete() === 1) {
                return $status;
            }
        }
        return null;
    }

    /** @internal */
    public static function approval(object $row): Approval
    {
        $row = (array) $row;
        $approved = $row['approved_arguments'];
        return Approval::fromArray([
            'arguments' => json_decode($row['arguments'], true),
            'approved_arguments' => $approved === null ? null : json_decode($approved, true),
        ] + $row);
    }

    private function table(): Builder
    {
        return $this->connection->table($this->table);
    }

    private function matching(?string $tenant, string $id): Builder
    {
        return $this->unexpired()->where('storage_key', Approval::storageKey($tenant, $id));
    }

    private function unexpired(): Builder
    {
        return $this->table()->where('expires_at', '>', now()->getTimestamp());
    }
}
