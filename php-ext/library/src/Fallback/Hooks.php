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
    private int $cacheTtl = 300;
    private string $cacheTenant = '';

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
        self::requireMethods($cache, 'cache', ['get', 'set', 'delete']);
        if ($ttl < 0) {
            throw Failure::invalidInput('$ttl must be a non-negative number of seconds');
        }
        Argument::checkTexts([3 => $tenant]);
        [$this->cache, $this->cacheTtl, $this->cacheTenant] = [$cache, $ttl, $tenant];
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
     * Returns the cached list of a server's tools, or calls `$loadList` and caches its result.
     *
     * @template T of array
     *
     * @param \Closure(): T $loadList
     *
     * @return array{T, bool} the list, and whether it came from the cache
     */
    public function loadWithCache(string $server, \Closure $loadList): array
    {
        if ($this->cache === null) {
            return [$loadList(), false];
        }
        $cacheKey = 'pillion_' . hash('sha256', Json::encode([$server, $this->cacheTenant]));
        $serializedList = $this->tryCache(fn (): mixed => $this->cache->get($cacheKey));
        $cachedList = is_string($serializedList) ? @unserialize($serializedList, ['allowed_classes' => [\stdClass::class]]) : null;
        if (is_array($cachedList)) {
            return [$cachedList, true];
        }
        $loadedList = $loadList();
        $this->tryCache(fn (): mixed => $this->cache->set($cacheKey, serialize($loadedList), $this->cacheTtl));
        return [$loadedList, false];
    }

    /**
     * Runs a cache operation. Returns null, and logs a warning, if the cache throws.
     *
     * @param \Closure(): mixed $operation
     */
    private function tryCache(\Closure $operation): mixed
    {
        try {
            return $operation();
        } catch (\Exception $exception) {
            $this->log('warning', 'The cache of MCP tool lists failed', ['error' => $exception->getMessage()]);
            return null;
        }
    }

    /** @param list<string> $methods */
    private static function requireMethods(?object $object, string $parameter, array $methods): ?object
    {
        foreach ($object === null ? [] : $methods as $method) {
            if (!is_callable([$object, $method])) {
                $class = get_debug_type($object);
                throw Failure::invalidInput("\$$parameter must have the method $method(), which $class does not have");
            }
        }
        return $object;
    }
}
