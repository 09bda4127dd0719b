<?php

declare(strict_types=1);

namespace Pillion\Fallback;

/**
 * The methods that all clients have beside their calls.
 *
 * @internal
 */
trait ClientHooks
{
    private readonly McpServer $server;

    /** Sessions belong to the sidecar, which ends them: there is nothing to do. */
    public function disconnect(): void
    {
        $this->server();
    }

    /**
     * Log lines go to a PSR-3 logger instead of PHP's error log; what it wants of them is its
     * own matter. They hold no arguments, results or credentials.
     *
     * @param ?object $logger a `Psr\Log\LoggerInterface`, or any object with its `log()`
     *
     * @throws \Pillion\Exception\InvalidInputException when it has no such method
     */
    public function setLogger(?object $logger): static
    {
        $this->server()->hooks->setLogger($logger);
        return $this;
    }

    /**
     * The events of `Pillion\Event` go to a PSR-14 dispatcher: those of lists and calls.
     *
     * @param ?object $dispatcher a `Psr\EventDispatcher\EventDispatcherInterface`, or any object with its `dispatch()`
     *
     * @throws \Pillion\Exception\InvalidInputException when it has no such method
     */
    public function setEventDispatcher(?object $dispatcher): static
    {
        $this->server()->hooks->setEventDispatcher($dispatcher);
        return $this;
    }

    /**
     * The list of tools is kept in a PSR-16 cache, by server and tenant. A cache that fails
     * costs time only, with a warning in the log.
     *
     * @param ?object $cache  a `Psr\SimpleCache\CacheInterface`, or any object with its `get()`, `set()` and `delete()`
     * @param int     $ttl    seconds that a list counts
     * @param string  $tenant for whom the list counts
     *
     * @throws \Pillion\Exception\InvalidInputException when it lacks a method, or the time is negative
     */
    public function setCache(?object $cache, int $ttl = 300, string $tenant = ''): static
    {
        $this->server()->hooks->setCache($cache, $ttl, $tenant);
        return $this;
    }

    private function server(): McpServer
    {
        return $this->server ?? throw new \Error(static::class . ' is not constructed: call parent::__construct()');
    }
}
