<?php

declare(strict_types=1);

namespace Pillion\Tests\Support;

/** A PSR-16 cache in memory. */
final class Cache
{
    /** @var array<string, mixed> */
    public array $entries = [];
    public int $hits = 0;
    public int $sets = 0;
    public ?int $ttl = null;

    public function get(string $key, mixed $default = null): mixed
    {
        $this->hits += isset($this->entries[$key]) ? 1 : 0;
        return $this->entries[$key] ?? $default;
    }

    public function set(string $key, mixed $value, ?int $ttl = null): bool
    {
        $this->entries[$key] = $value;
        $this->ttl = $ttl;
        $this->sets++;
        return true;
    }

    public function delete(string $key): bool
    {
        unset($this->entries[$key]);
        return true;
    }
}
