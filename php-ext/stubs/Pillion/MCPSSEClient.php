<?php

namespace Pillion;

/**
 * A client for an MCP server. The process owns the sessions: clients with the same server, configuration and
 * credentials share one open session, also across requests of an FPM worker.
 */
class MCPSSEClient
{
    /**
     * Creates a client without any I/O.
     *
     * @param int|float|null       $timeout timeout of one call in seconds, including retries and reconnects; default: the ini
     *                                      setting `pillion.timeout_ms`, or 30 seconds
     * @param ?string              $apiKey  sent as a bearer token
     * @param array<string, mixed> $options see docs/reference/php-mcp-clients.md
     *
     * @throws Exception\InvalidInputException when the URL or an option is not valid
     */
    public function __construct(
        #[\SensitiveParameter]
        string $serverUrl,
        int|float|null $timeout = null,
        #[\SensitiveParameter]
        ?string $apiKey = null,
        #[\SensitiveParameter]
        array $options = [],
    ) {
    }

    /**
     * Sends any request and returns the JSON-RPC `result` unchanged, with objects as associative arrays.
     *
     * @param array<string, mixed> $params
     *
     * @throws Exception\TransportException     when the server cannot be reached or sends an invalid response
     * @throws Exception\AuthorizationException when the server requires a credential or rejects it
     * @throws Exception\TimeoutException
     * @throws Exception\JsonRpcException       when the server answers with a JSON-RPC error
     * @throws Exception\RateLimitedException   when the server answers with HTTP 429
     * @throws Exception\InvalidInputException  when the parameters cannot be converted to JSON
     */
    public function request(string $method, array $params = []): mixed
    {
    }

    /**
     * Returns the server's tools as listed by the server. Returns an empty list and logs an error if the
     * request fails.
     *
     * @return list<array<string, mixed>>
     */
    public function listTools(): array
    {
    }

    /**
     * Calls a tool and returns the result unchanged, also a result with `isError`.
     *
     * @param array<string, mixed> $arguments
     *
     * @throws Exception\PillionException as {@see request()}
     */
    public function callTool(string $name, array $arguments = []): mixed
    {
    }

    /** Returns whether the server answers now. */
    public function isAvailable(): bool
    {
    }

    /**
     * Closes the session at the server for all clients that share the session; the next call opens a new one.
     * Takes at most one second.
     */
    public function disconnect(): void
    {
    }

    /**
     * Sends log messages to a PSR-3 logger instead of PHP's error log, regardless of the configured log
     * level. Log messages contain no arguments, results or credentials.
     *
     * @param ?object $logger a `Psr\Log\LoggerInterface`, or any object with its `log()`
     *
     * @throws Exception\InvalidInputException when the object has no `log()` method
     */
    public function setLogger(?object $logger): static
    {
    }

    /**
     * Sends the events of `Pillion\Event` to a PSR-14 dispatcher.
     *
     * @param ?object $dispatcher a `Psr\EventDispatcher\EventDispatcherInterface`, or any object with its `dispatch()`
     *
     * @throws Exception\InvalidInputException when the object has no `dispatch()` method
     */
    public function setEventDispatcher(?object $dispatcher): static
    {
    }

    /**
     * Caches the list of tools in a PSR-16 cache, keyed by configuration, credentials and tenant. A failing
     * cache only costs time and logs a warning.
     *
     * @param ?object $cache  a `Psr\SimpleCache\CacheInterface`, or any object with its `get()`, `set()` and `delete()`
     * @param int     $ttl    lifetime of a cached list, in seconds
     * @param string  $tenant the tenant that the cached list belongs to
     *
     * @throws Exception\InvalidInputException when the object lacks a method, or `$ttl` is negative
     */
    public function setCache(?object $cache, int $ttl = 300, string $tenant = ''): static
    {
    }
}
