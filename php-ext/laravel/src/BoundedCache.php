<?php

declare(strict_types=1);

namespace Pillion\Laravel;

/**
 * A cache of recently created values by key. The oldest values are evicted, so that the memory of a worker
 * with many users does not grow.
 *
 * @internal
 *
 * @template T
 */
final class BoundedCache
{
    /** @var array<string, T> */
    private array $values = [];

    public function __construct(private readonly int $maxEntries)
    {
    }

    /**
     * @param \Closure(): T $createValue
     *
     * @return T
     */
    public function get(string $key, \Closure $createValue): mixed
    {
        if (!isset($this->values[$key])) {
            $value = $createValue();
            $this->values[$key] = $value;
            if (count($this->values) > $this->maxEntries) {
                unset($this->values[array_key_first($this->values)]);
            }
        }
        return $this->values[$key];
    }

    /** @return ?T */
    public function peek(string $key): mixed
    {
        return $this->values[$key] ?? null;
    }

    public function forget(string $key): void
    {
        unset($this->values[$key]);
    }

    /** @return list<T> */
    public function all(): array
    {
        return array_values($this->values);
    }

    public function clear(): void
    {
        $this->values = [];
    }
}
