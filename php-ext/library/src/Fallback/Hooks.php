<?php

declare(strict_types=1);

namespace Pillion\Fallback;

/**
 * The logger, the event dispatcher and the cache of a client or an executor.
 *
 * @internal
 */
final class Hooks
{
    private ?object $logger = null;
    private ?object $dispatcher = null;
    private ?object $cache = null;
    private int $ttl = 300;
    private string $tenant = '';

    public function setLogger(?object $logger): void
    {
        $this->logger = self::having($logger, 'logger', ['log']);
    }

    public function setEventDispatcher(?object $dispatcher): void
    {
        $this->dispatcher = self::having($dispatcher, 'dispatcher', ['dispatch']);
    }

    public function setCache(?object $cache, int $ttl, string $tenant): void
    {
        $cache = self::having($cache, 'cache', ['get', 'set', 'delete']);
        if ($ttl < 0) {
            throw Failure::invalidInput('$ttl must not be negative');
        }
        Argument::texts([3 => $tenant]);
        [$this->cache, $this->ttl, $this->tenant] = [$cache, $ttl, $tenant];
    }

    /**
     * Logs a message to the logger, or to PHP's error log without a logger. Messages contain no arguments,
     * results or credentials.
     *
     * @param array<string, mixed> $facts
     */
    public function log(string $level, string $message, array $facts): void
    {
        if ($this->logger !== null) {
            $this->logger->log($level, $message, $facts);
        } else {
            error_log("pillion: $message " . Json::encode($facts));
        }
    }

    /**
     * Logs a message to the logger only.
     *
     * @param array<string, mixed> $facts
     */
    public function note(string $level, string $message, array $facts): void
    {
        $this->logger?->log($level, $message, $facts);
    }

    public function dispatch(object $event): void
    {
        $this->dispatcher?->dispatch($event);
    }

    /**
     * Returns the cached list of a server, or calls `$ask` and caches its result.
     *
     * @template T of array
     *
     * @param \Closure(): T $ask
     *
     * @return array{T, bool} the list, and whether it came from the cache
     */
    public function cached(string $server, \Closure $ask): array
    {
        if ($this->cache === null) {
            return [$ask(), false];
        }
        $key = 'pillion_' . hash('sha256', Json::encode([$server, $this->tenant]));
        $known = $this->spared(fn (): mixed => $this->cache->get($key));
        $known = is_string($known) ? @unserialize($known, ['allowed_classes' => [\stdClass::class]]) : null;
        if (is_array($known)) {
            return [$known, true];
        }
        $fresh = $ask();
        $this->spared(fn (): mixed => $this->cache->set($key, serialize($fresh), $this->ttl));
        return [$fresh, false];
    }

    /**
     * Uses the cache. A failing cache only costs time.
     *
     * @param \Closure(): mixed $use
     */
    private function spared(\Closure $use): mixed
    {
        try {
            return $use();
        } catch (\Exception $e) {
            $this->log('warning', 'The cache of tool lists failed', ['error' => $e->getMessage()]);
            return null;
        }
    }

    /** @param list<string> $methods */
    private static function having(?object $object, string $parameter, array $methods): ?object
    {
        foreach ($object === null ? [] : $methods as $method) {
            if (!is_callable([$object, $method])) {
                $class = get_debug_type($object);
                throw Failure::invalidInput("\$$parameter must have the method $method(), and $class has none");
            }
        }
        return $object;
    }
}
