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
    private const KEY = 'pillion:approvals';
    private const LOCK_SECONDS = 5;

    public function __construct(private readonly Repository $cache)
    {
    }

    public function add(Approval $approval): bool
    {
        return $this->update(function (array &$all) use ($approval): bool {
            $key = Approval::storageKey($approval->tenant, $approval->id);
            if (isset($all[$key])) {
                return false;
            }
            $all[$key] = $approval->toArray();
            return true;
        });
    }

    public function find(?string $tenant, string $id): ?Approval
    {
        $row = $this->read()[Approval::storageKey($tenant, $id)] ?? null;
        return $row === null ? null : Approval::fromArray($row);
    }

    public function pending(?string $tenant, ?string $user = null): array
    {
        $all = array_map([Approval::class, 'fromArray'], array_values($this->read()));
        return array_values(array_filter(
            $all,
            fn (Approval $approval) => $approval->isPending()
                && $approval->tenant === $tenant
                && ($user === null || $approval->user === $user),
        ));
    }

    public function countPending(?string $tenant, ?string $user): array
    {
        $pending = array_filter(
            $this->read(),
            fn (array $row) => $row['status'] === ApprovalStatus::Pending->value && $row['tenant'] === $tenant,
        );
        return ['all' => count($pending), 'user' => count(array_filter($pending, fn (array $row) => $row['user'] === $user))];
    }

    public function decide(?string $tenant, string $id, ApprovalStatus $status, ?string $by): ?Approval
    {
        return $this->change($tenant, $id, fn (Approval $approval) => $approval->withDecision($status, $by));
    }

    public function approveWith(?string $tenant, string $id, ?string $by, array $arguments): ?Approval
    {
        $approve = fn (Approval $approval) => $approval->withDecision(ApprovalStatus::Approved, $by, $arguments);
        return $this->change($tenant, $id, $approve);
    }

    /** @param Closure(Approval): Approval $decide */
    private function change(?string $tenant, string $id, Closure $decide): ?Approval
    {
        $key = Approval::storageKey($tenant, $id);
        return $this->update(function (array &$all) use ($key, $decide): ?Approval {
            $approval = isset($all[$key]) ? Approval::fromArray($all[$key]) : null;
            if ($approval === null || !$approval->isPending()) {
                return null;
            }
            $decided = $decide($approval);
            $all[$key] = $decided->toArray();
            return $decided;
        });
    }

    public function take(?string $tenant, string $id): ?ApprovalStatus
    {
        $key = Approval::storageKey($tenant, $id);
        return $this->update(function (array &$all) use ($key): ?ApprovalStatus {
            $status = isset($all[$key]) ? ApprovalStatus::from($all[$key]['status']) : null;
            if ($status === null || $status === ApprovalStatus::Pending) {
                return null;
            }
            unset($all[$key]);
            return $status;
        });
    }

    /** @return array<string, array<string, mixed>> the approvals that have not expired */
    private function read(): array
    {
        $now = now()->getTimestamp();
        return array_filter($this->cache->get(self::KEY, []), fn (array $row) => $row['expires_at'] > $now);
    }

    /**
     * @template T
     *
     * @param Closure(array<string, array<string, mixed>>): T $update
     *
     * @return T
     */
    private function update(Closure $update): mixed
    {
        $run = function () use ($update): mixed {
            $all = $this->read();
            $result = $update($all);
            $last = $all === [] ? 0 : max(array_column($all, 'expires_at'));
            if ($all === []) {
                $this->cache->forget(self::KEY);
            } else {
                $this->cache->put(self::KEY, $all, max(1, $last - now()->getTimestamp()));
            }
            return $result;
        };
        $store = $this->cache->getStore();
        return $store instanceof LockProvider
            ? $store->lock(self::KEY . ':lock', self::LOCK_SECONDS)->block(self::LOCK_SECONDS, $run)
            : $run();
    }
}
