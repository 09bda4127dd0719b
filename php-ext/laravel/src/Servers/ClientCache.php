<?php

declare(strict_types=1);

namespace Pillion\Laravel\Servers;

use Psr\SimpleCache\CacheInterface;
use SensitiveParameterValue;

/**
 * The cache of a client, hidden from dumps of the client because the store references the whole application.
 */
final class ClientCache
{
    private readonly SensitiveParameterValue $store;

    public function __construct(CacheInterface $store)
    {
        $this->store = new SensitiveParameterValue($store);
    }

    public function get(string $key, mixed $default = null): mixed
    {
        return $this->cacheStore()->get($key, $default);
    }

    public function set(string $key, mixed $value, null|int|\DateInterval $ttl = null): bool
    {
        return $this->cacheStore()->set($key, $value, $ttl);
    }

    public function delete(string $key): bool
    {
        return $this->cacheStore()->delete($key);
    }

    private function cacheStore(): CacheInterface
    {
        return $this->store->getValue();
    }
}
