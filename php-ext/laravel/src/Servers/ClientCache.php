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
        return $this->store()->get($key, $default);
    }

    public function set(string $key, mixed $value, null|int|\DateInterval $ttl = null): bool
    {
        return $this->store()->set($key, $value, $ttl);
    }

    public function delete(string $key): bool
    {
        return $this->store()->delete($key);
    }

    private function store(): CacheInterface
    {
        return $this->store->getValue();
    }
}
