<?php

declare(strict_types=1);

namespace Pillion\Fallback;

/**
 * The methods that all clients share, except the methods that make calls.
 *
 * @internal
 */
trait ClientHooks
{
    private readonly McpServer $server;

    /**
     * Closes the session at the server for all clients that share the session; the next call opens a new session.
     * Takes at most one second. With the library, does nothing: the sidecar owns the sessions.
     */
    public function disconnect(): void
    {
        $this->server();
    }

    /**
     * Sends log messages to a PSR-3 logger instead of PHP's error log, regardless of the configured log
     * level. Log messages contain no arguments, results or credentials.
     *
     * @param ?object $logger a `Psr\Log\LoggerInterface`, or any object with its `log()`
     *
     * @throws \Pillion\Exception\InvalidInputException when the object has no `log()` method
     */
    public function setLogger(?object $logger): static
    {
        $this->server()->hooks->setLogger($logger);
        return $this;
    }

    /**
     * Sends the events of `Pillion\Event` to a PSR-14 dispatcher. The library sends only the events of tool lists and
     * tool calls.
     *
     * @param ?object $dispatcher a `Psr\EventDispatcher\EventDispatcherInterface`, or any object with its `dispatch()`
     *
     * @throws \Pillion\Exception\InvalidInputException when the object has no `dispatch()` method
     */
    public function setEventDispatcher(?object $dispatcher): static
    {
        $this->server()->hooks->setEventDispatcher($dispatcher);
        return $this;
    }

    /**
     * Caches the list of tools in a PSR-16 cache, keyed by server and tenant, and with the
     * extension also by configuration and credentials. If the cache fails, the client logs a
     * warning and requests the list from the server.
     *
     * @param ?object $cache  a `Psr\SimpleCache\CacheInterface`, or any object with its `get()`, `set()` and `delete()`
     * @param int     $ttl    lifetime of a cached list, in seconds
     * @param string  $tenant the tenant that the cached list belongs to
     *
     * @throws \Pillion\Exception\InvalidInputException when the object lacks a method, or `$ttl` is negative
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
