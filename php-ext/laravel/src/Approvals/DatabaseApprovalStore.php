<?php

declare(strict_types=1);

namespace Pillion\Laravel\Approvals;

use Illuminate\Database\ConnectionInterface;
use Illuminate\Database\Query\Builder;
use Pillion\Laravel\Contracts\ApprovalStore;

/** Approvals in a table; `vendor:publish --tag=pillion-migrations` brings its migration. */
final class DatabaseApprovalStore implements ApprovalStore
{
    public function __construct(
        private readonly ConnectionInterface $connection,
        private readonly string $table,
    ) {
    }

    public function add(Approval $approval): bool
    {
        $row = ['arguments' => json_encode((object) $approval->arguments, JSON_THROW_ON_ERROR)] + $approval->toArray();
        $this->table()->where('id', $approval->id)->where('expires_at', '<=', now()->getTimestamp())->delete();
        return $this->table()->insertOrIgnore($row) === 1;
    }

    public function find(string $id): ?Approval
    {
        $row = $this->live()->where('id', $id)->first();
        return $row === null ? null : self::approval($row);
    }

    public function pending(?string $user = null): array
    {
        $rows = $this->live()->where('status', ApprovalStatus::Pending->value)->orderBy('created_at')->orderBy('id');
        if ($user !== null) {
            $rows->where('user', $user);
        }
        return $rows->get()->map([self::class, 'approval'])->values()->all();
    }

    public function decide(string $id, ApprovalStatus $status, ?string $by): ?Approval
    {
        $changed = $this->live()->where('id', $id)->where('status', ApprovalStatus::Pending->value)
            ->update(['status' => $status->value, 'decided_by' => $by, 'decided_at' => now()->getTimestamp()]);
        return $changed === 1 ? $this->find($id) : null;
    }

    public function take(string $id): ?ApprovalStatus
    {
        foreach ([ApprovalStatus::Denied, ApprovalStatus::Approved] as $status) {
            if ($this->live()->where('id', $id)->where('status', $status->value)->delete() === 1) {
                return $status;
            }
        }
        return null;
    }

    /** @internal */
    public static function approval(object $row): Approval
    {
        $row = (array) $row;
        return Approval::fromArray(['arguments' => json_decode($row['arguments'], true)] + $row);
    }

    private function table(): Builder
    {
        return $this->connection->table($this->table);
    }

    private function live(): Builder
    {
        return $this->table()->where('expires_at', '>', now()->getTimestamp());
    }
}
