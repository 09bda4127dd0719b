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
        // Expired approvals are deleted first, because an expired approval with the same key would
        // prevent the insert.
        $this->table()->where('expires_at', '<=', now()->getTimestamp())->delete();
        return $this->table()->insertOrIgnore($row) === 1;
    }

    public function find(?string $tenant, string $id): ?Approval
    {
        $row = $this->queryById($tenant, $id)->first();
        return $row === null ? null : self::toApproval($row);
    }

    public function pending(?string $tenant, ?string $user = null): array
    {
        $query = $this->queryUnexpired()->where('status', ApprovalStatus::Pending->value)->where('tenant', $tenant)
            ->orderBy('created_at')->orderBy('id');
        if ($user !== null) {
            $query->where('user', $user);
        }
        // The tenant and the user are compared again in PHP, because the database collation may
        // treat `A` and `a` as equal.
        return $query->get()->map(self::toApproval(...))->filter(
            fn (Approval $approval) => $approval->tenant === $tenant && ($user === null || $approval->user === $user),
        )->values()->all();
    }

    public function countPending(?string $tenant, ?string $user): array
    {
        $queryPending = fn () => $this->queryUnexpired()->where('status', ApprovalStatus::Pending->value)->where('tenant', $tenant);
        return ['all' => $queryPending()->count(), 'user' => $queryPending()->where('user', $user)->count()];
    }

    public function decide(?string $tenant, string $id, ApprovalStatus $status, ?string $by): ?Approval
    {
        return $this->decidePending($tenant, $id, ['status' => $status->value, 'decided_by' => $by]);
    }

    public function approveWith(?string $tenant, string $id, ?string $by, array $arguments): ?Approval
    {
        return $this->decidePending($tenant, $id, [
            'status' => ApprovalStatus::Approved->value,
            'decided_by' => $by,
            'approved_arguments' => json_encode((object) $arguments, JSON_THROW_ON_ERROR),
        ]);
    }

    /** @param array<string, ?string> $decision */
    private function decidePending(?string $tenant, string $id, array $decision): ?Approval
    {
        $changedRows = $this->queryById($tenant, $id)->where('status', ApprovalStatus::Pending->value)
            ->update($decision + ['decided_at' => now()->getTimestamp()]);
        return $changedRows === 1 ? $this->find($tenant, $id) : null;
    }

    public function take(?string $tenant, string $id): ?ApprovalStatus
    {
        foreach ([ApprovalStatus::Denied, ApprovalStatus::Approved] as $status) {
            if ($this->queryById($tenant, $id)->where('status', $status->value)->delete() === 1) {
                return $status;
            }
        }
        return null;
    }

    private static function toApproval(object $row): Approval
    {
        $columns = (array) $row;
        $approvedArguments = $columns['approved_arguments'];
        return Approval::fromArray([
            'arguments' => json_decode($columns['arguments'], true),
            'approved_arguments' => $approvedArguments === null ? null : json_decode($approvedArguments, true),
        ] + $columns);
    }

    private function table(): Builder
    {
        return $this->connection->table($this->table);
    }

    private function queryById(?string $tenant, string $id): Builder
    {
        return $this->queryUnexpired()->where('storage_key', Approval::storageKey($tenant, $id));
    }

    private function queryUnexpired(): Builder
    {
        return $this->table()->where('expires_at', '>', now()->getTimestamp());
    }
}
