<?php

namespace Pillion;

/**
 * An MCP server. Sessions belong to the process: a client for the same server with the
 * same configuration and credentials finds the session warm, also in a later request of
 * an FPM worker.
 */
class MCPSSEClient
{
    /**
     * Does no I/O.
     *
     * @param int|float|null       $timeout seconds for one call, with all it does; unless set: the ini
     *                                      setting `pillion.timeout_ms`, or 30 seconds
     * @param ?string              $apiKey  goes out as a bearer token
     * @param array<string, mixed> $options see docs/PHP.md
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
     * Sends any request; returns the JSON-RPC `result` unchanged, objects as associative arrays.
     *
     * @param array<string, mixed> $params
     *
     * @throws Exception\TransportException     when the server cannot be reached or answers with nonsense
     * @throws Exception\AuthorizationException when the server wants a credential, or a better one
     * @throws Exception\TimeoutException
     * @throws Exception\JsonRpcException       when the server answers with an error
     * @throws Exception\RateLimitedException   when the server answers with HTTP 429
     * @throws Exception\InvalidInputException  when the parameters are no JSON
     */
    public function request(string $method, array $params = []): mixed
    {
    }

    /**
     * The tools of the server as it lists them. Empty when it cannot be asked, which goes
     * to the log.
     *
     * @return list<array<string, mixed>>
     */
    public function listTools(): array
    {
    }

    /**
     * The result of a tool, unchanged: also one with `isError`.
     *
     * @param array<string, mixed> $arguments
     *
     * @throws Exception\PillionException as {@see request()}
     */
    public function callTool(string $name, array $arguments = []): mixed
    {
    }

    /** Whether the server answers now. */
    public function isAvailable(): bool
    {
    }

    /**
     * Ends the session at the server, for every client that shares it; the next call opens
     * another. It takes a second at most.
     */
    public function disconnect(): void
    {
    }

    /**
     * Log lines go to a PSR-3 logger instead of PHP's error log; what it wants of them is its
     * own matter. They hold no arguments, results or credentials.
     *
     * @param ?object $logger a `Psr\Log\LoggerInterface`, or any object with its `log()`
     *
     * @throws Exception\InvalidInputException when it has no such method
     */
    public function setLogger(?object $logger): static
    {
    }

    /**
     * The events of `Pillion\Event` go to a PSR-14 dispatcher.
     *
     * @param ?object $dispatcher a `Psr\EventDispatcher\EventDispatcherInterface`, or any object with its `dispatch()`
     *
     * @throws Exception\InvalidInputException when it has no such method
     */
    public function setEventDispatcher(?object $dispatcher): static
    {
    }

    /**
     * The list of tools is kept in a PSR-16 cache, by configuration, credentials and tenant.
     * A cache that fails costs time only, with a warning in the log.
     *
     * @param ?object $cache  a `Psr\SimpleCache\CacheInterface`, or any object with its `get()`, `set()` and `delete()`
     * @param int     $ttl    seconds that a list counts
     * @param string  $tenant for whom the list counts
     *
     * @throws Exception\InvalidInputException when it lacks a method, or the time is negative
     */
    public function setCache(?object $cache, int $ttl = 300, string $tenant = ''): static
    {
    }
}
