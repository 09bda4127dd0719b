<?php

declare(strict_types=1);

namespace Pillion\Laravel\Approvals;

use Closure;
use Illuminate\Contracts\Cache\LockProvider;
use Illuminate\Contracts\Cache\Repository;
use Pillion\Laravel\Contracts\ApprovalStore;
use Pillion\Laravel\Contracts\CountsPending;
use Pillion\Laravel\Contracts\StoresApprovedArguments;

/**
 * Stores approvals in a cache store, which all workers must share. All approvals are one cache entry, changed
 * under a lock if the store supports locks (all of Laravel's stores except `apc` do).
 */
final class CacheApprovalStore implements ApprovalStore, CountsPending, StoresApprovedArguments
{
    private const CACHE_KEY = 'pillion:approvals';
    private const LOCK_TIMEOUT = 5;

    public function __construct(private readonly Repository $cache)
    {
    }

    public function add(Approval $approval): bool
    {
        return $this->updateRows(function (array &$rows) use ($approval): bool {
            $key = Approval::storageKey($approval->tenant, $approval->id);
            if (isset($rows[$key])) {
                return false;
            }
            $rows[$key] = $approval->toArray();
            return true;
        });
    }

    public function find(?string $tenant, string $id): ?Approval
    {
        $row = $this->readUnexpired()[Approval::storageKey($tenant, $id)] ?? null;
        return $row === null ? null : Approval::fromArray($row);
    }

    public function pending(?string $tenant, ?string $user = null): array
    {
        $approvals = array_map([Approval::class, 'fromArray'], array_values($this->readUnexpired()));
        return array_values(array_filter(
            $approvals,
            fn (Approval $approval) => $approval->isPending()
                && $approval->tenant === $tenant
                && ($user === null || $approval->user === $user),
        ));
    }

    public function countPending(?string $tenant, ?string $user): array
    {
        $pendingRows = array_filter(
            $this->readUnexpired(),
            fn (array $row) => $row['status'] === ApprovalStatus::Pending->value && $row['tenant'] === $tenant,
        );
        return ['all' => count($pendingRows), 'user' => count(array_filter($pendingRows, fn (array $row) => $row['user'] === $user))];
    }

    public function decide(?string $tenant, string $id, ApprovalStatus $status, ?string $by): ?Approval
    {
        return $this->decidePending($tenant, $id, fn (Approval $approval) => $approval->withDecision($status, $by));
    }

    public function approveWith(?string $tenant, string $id, ?string $by, array $arguments): ?Approval
    {
        $addDecision = fn (Approval $approval) => $approval->withDecision(ApprovalStatus::Approved, $by, $arguments);
        return $this->decidePending($tenant, $id, $addDecision);
    }

    /** @param Closure(Approval): Approval $addDecision returns the approval with the decision */
    private function decidePending(?string $tenant, string $id, Closure $addDecision): ?Approval
    {
        $key = Approval::storageKey($tenant, $id);
        return $this->updateRows(function (array &$rows) use ($key, $addDecision): ?Approval {
            $approval = isset($rows[$key]) ? Approval::fromArray($rows[$key]) : null;
            if ($approval === null || !$approval->isPending()) {
                return null;
            }
            $decidedApproval = $addDecision($approval);
            $rows[$key] = $decidedApproval->toArray();
            return $decidedApproval;
        });
    }

    public function take(?string $tenant, string $id): ?ApprovalStatus
    {
        $key = Approval::storageKey($tenant, $id);
        return $this->updateRows(function (array &$rows) use ($key): ?ApprovalStatus {
            $status = isset($rows[$key]) ? ApprovalStatus::from($rows[$key]['status']) : null;
            if ($status === null || $status === ApprovalStatus::Pending) {
                return null;
            }
            unset($rows[$key]);
            return $status;
        });
    }

    /** @return array<string, array<string, mixed>> the approvals that have not expired */
    private function readUnexpired(): array
    {
        $now = now()->getTimestamp();
        return array_filter($this->cache->get(self::CACHE_KEY, []), fn (array $row) => $row['expires_at'] > $now);
    }

    /**
     * Changes the approvals under a lock. Returns what `$changeRows` returns.
     *
     * @template T
     *
     * @param Closure(array<string, array<string, mixed>>): T $changeRows
     *
     * @return T
     */
    private function updateRows(Closure $changeRows): mixed
    {
        $lockedUpdate = function () use ($changeRows): mixed {
            $rows = $this->readUnexpired();
            $result = $changeRows($rows);
            $lastExpiry = $rows === [] ? 0 : max(array_column($rows, 'expires_at'));
            if ($rows === []) {
                $this->cache->forget(self::CACHE_KEY);
            } else {
                $this->cache->put(self::CACHE_KEY, $rows, max(1, $lastExpiry - now()->getTimestamp()));
            }
            return $result;
        };
        $store = $this->cache->getStore();
        return $store instanceof LockProvider
            ? $store->lock(self::CACHE_KEY . ':lock', self::LOCK_TIMEOUT)->block(self::LOCK_TIMEOUT, $lockedUpdate)
            : $lockedUpdate();
    }
}
