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
final class Recent
{
    /** @var array<string, T> */
    private array $kept = [];

    public function __construct(private readonly int $most)
    {
    }

    /**
     * @param \Closure(): T $make
     *
     * @return T
     */
    public function get(string $key, \Closure $make): mixed
    {
        if (!isset($this->kept[$key])) {
            $made = $make();
            $this->kept[$key] = $made;
            if (count($this->kept) > $this->most) {
                unset($this->kept[array_key_first($this->kept)]);
            }
        }
        return $this->kept[$key];
    }

    /** @return ?T */
    public function peek(string $key): mixed
    {
        return $this->kept[$key] ?? null;
    }

    public function forget(string $key): void
    {
        unset($this->kept[$key]);
    }

    /** @return list<T> */
    public function all(): array
    {
        return array_values($this->kept);
    }

    public function clear(): void
    {
        $this->kept = [];
    }
}
