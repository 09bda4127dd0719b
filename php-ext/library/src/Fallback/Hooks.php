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
        $this->logger = self::requireMethods($logger, 'logger', ['log']);
    }

    public function setEventDispatcher(?object $dispatcher): void
    {
        $this->dispatcher = self::requireMethods($dispatcher, 'dispatcher', ['dispatch']);
    }

    public function setCache(?object $cache, int $ttl, string $tenant): void
    {
        $cache = self::requireMethods($cache, 'cache', ['get', 'set', 'delete']);
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
     * @param array<string, mixed> $context
     */
    public function log(string $level, string $message, array $context): void
    {
        if ($this->logger !== null) {
            $this->logger->log($level, $message, $context);
        } else {
            LogLine::write("pillion: $message " . Json::encode($context));
        }
    }

    /**
     * Logs a message to the logger only.
     *
     * @param array<string, mixed> $context
     */
    public function logToLogger(string $level, string $message, array $context): void
    {
        $this->logger?->log($level, $message, $context);
    }

    public function dispatch(object $event): void
    {
        $this->dispatcher?->dispatch($event);
    }

    /**
     * Returns the cached list of a server, or calls `$load` and caches its result.
     *
     * @template T of array
     *
     * @param \Closure(): T $load
     *
     * @return array{T, bool} the list, and whether it came from the cache
     */
    public function cached(string $server, \Closure $load): array
    {
        if ($this->cache === null) {
            return [$load(), false];
        }
        $key = 'pillion_' . hash('sha256', Json::encode([$server, $this->tenant]));
        $cached = $this->tryCache(fn (): mixed => $this->cache->get($key));
        $cached = is_string($cached) ? @unserialize($cached, ['allowed_classes' => [\stdClass::class]]) : null;
        if (is_array($cached)) {
            return [$cached, true];
        }
        $loaded = $load();
        $this->tryCache(fn (): mixed => $this->cache->set($key, serialize($loaded), $this->ttl));
        return [$loaded, false];
    }

    /**
     * Runs a cache operation. Returns null, and logs a warning, if the cache throws.
     *
     * @param \Closure(): mixed $use
     */
    private function tryCache(\Closure $use): mixed
    {
        try {
            return $use();
        } catch (\Exception $e) {
            $this->log('warning', 'The cache of tool lists failed', ['error' => $e->getMessage()]);
            return null;
        }
    }

    /** @param list<string> $methods */
    private static function requireMethods(?object $object, string $parameter, array $methods): ?object
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
