<?php

namespace Pillion;

/**
 * An MCP server with all that it has: tools, resources, prompts, completion, progress,
 * cancellation, and the questions that it asks on its part.
 *
 * Results are what the server sent: objects as associative arrays, but `{}` as an empty
 * `stdClass`, so that `json_encode()` gives back what came. Sessions belong to the process:
 * a client with the same configuration, credentials and callbacks (those of the server's
 * questions) finds the session warm, also in a later request of an FPM worker. Callbacks
 * belong to the object, and run on PHP's thread while it waits for a call.
 */
class McpClient
{
    /**
     * Does no I/O.
     *
     * @param string|array{url?: string, command?: string|list<string>, args?: list<string>, env?: array<string, string>, inherit_env?: list<string>, cwd?: string, ...} $server
     *   a URL; or an array with `url` or `command`, and options
     * @param array{timeout?: int|float, api_key?: string, oauth?: array<string, mixed>, roots?: list<string|array{uri: string, name?: string}>, label?: string, transport?: string, handshake?: string, protocol_version?: string, headers?: array<string, string>, allow_http?: bool, ...} $options
     *   see docs/PHP.md
     *
     * @throws Exception\InvalidInputException when the server or an option is not valid
     */
    public function __construct(
        #[\SensitiveParameter]
        string|array $server,
        #[\SensitiveParameter]
        array $options = [],
    ) {
    }

    /**
     * Sends any request; returns the JSON-RPC `result` unchanged.
     *
     * @param array<string, mixed> $params
     *
     * @throws Exception\TransportException      when the server cannot be reached or answers with nonsense
     * @throws Exception\SessionExpiredException when the server forgets every session at once
     * @throws Exception\AuthorizationException  when the server wants a credential, or a better one
     * @throws Exception\TimeoutException
     * @throws Exception\JsonRpcException        when the server answers with an error
     * @throws Exception\RateLimitedException    when the server answers with HTTP 429
     * @throws Exception\InvalidInputException   when the parameters are no JSON
     */
    public function request(string $method, array $params = []): mixed
    {
    }

    /**
     * Tells the server something that it does not answer.
     *
     * @param array<string, mixed> $params
     *
     * @throws Exception\PillionException as {@see request()}
     */
    public function notify(string $method, array $params = []): void
    {
    }

    /**
     * How the server is spoken to and what it says of itself; connects if need be.
     *
     * @return array{name: ?string, version: ?string, protocol_version: ?string, transport: string, capabilities: array<string, mixed>|\stdClass, instructions: ?string}
     *
     * @throws Exception\PillionException as {@see request()}
     */
    public function getServerInfo(): array
    {
    }

    /** @throws Exception\PillionException as {@see request()}, when the server does not answer */
    public function ping(): void
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
     * Asks the server for its log messages from a level up; {@see onNotification()} hears them.
     *
     * @param string $level debug, info, notice, warning, error, critical, alert or emergency
     *
     * @throws Exception\PillionException as {@see request()}
     */
    public function setLoggingLevel(string $level): void
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

    /**
     * Calls a tool. A result with `isError` is a ToolResult that has failed.
     *
     * @param array<string, mixed> $arguments
     * @param array{timeout?: int|float, on_progress?: callable(Progress, string): mixed, cancellation?: CancellationToken, meta?: array<string, mixed>, id?: string} $options
     *
     * @throws Exception\CancelledException when the token was cancelled
     * @throws Exception\PillionException   as {@see request()}
     */
    public function callTool(string $name, array $arguments = [], array $options = []): ToolResult
    {
    }

    /**
     * Calls tools side by side on one session. Each call ends in one result, in the order of
     * the calls; one that fails, for whatever reason, has a failed result.
     *
     * @param list<ToolCall|array{name: string, arguments?: array<string, mixed>|string, id?: string}> $calls
     * @param array{timeout?: int|float, on_progress?: callable(Progress, string): mixed, cancellation?: CancellationToken, meta?: array<string, mixed>, max_concurrent?: int} $options
     *
     * @return list<ToolResult>
     *
     * @throws Exception\InvalidInputException when an entry is no call, or an option is wrong
     */
    public function callTools(array $calls, array $options = []): array
    {
    }

    /**
     * Starts a call and gives its progress as it comes.
     *
     * @param array<string, mixed> $arguments
     * @param array{timeout?: int|float, cancellation?: CancellationToken, meta?: array<string, mixed>, id?: string} $options
     *
     * @throws Exception\InvalidInputException when an argument or an option is wrong
     */
    public function streamTool(string $name, array $arguments = [], array $options = []): ToolStream
    {
    }

    /**
     * The tools of the server as it lists them.
     *
     * @return list<array<string, mixed>>
     *
     * @throws Exception\PillionException as {@see request()}
     */
    public function listTools(): array
    {
    }

    /**
     * The resources of the server.
     *
     * @return list<array<string, mixed>>
     *
     * @throws Exception\PillionException as {@see request()}
     */
    public function listResources(): array
    {
    }

    /**
     * The templates of resources.
     *
     * @return list<array<string, mixed>>
     *
     * @throws Exception\PillionException as {@see request()}
     */
    public function listResourceTemplates(): array
    {
    }

    /**
     * A resource: the whole result.
     *
     * @return array{contents: list<array<string, mixed>>, ...}
     *
     * @throws Exception\PillionException as {@see request()}
     */
    public function readResource(string $uri): array
    {
    }

    /**
     * The prompts of the server.
     *
     * @return list<array<string, mixed>>
     *
     * @throws Exception\PillionException as {@see request()}
     */
    public function listPrompts(): array
    {
    }

    /**
     * A prompt, filled in: the whole result.
     *
     * @param array<string, string> $arguments
     *
     * @return array{messages: list<array<string, mixed>>, description?: string, ...}
     *
     * @throws Exception\PillionException as {@see request()}
     */
    public function getPrompt(string $name, array $arguments = []): array
    {
    }

    /**
     * How an argument of a prompt or of a resource template may go on.
     *
     * @param array{type: string, name?: string, uri?: string} $reference `['type' => 'ref/prompt', 'name' => ...]` or `['type' => 'ref/resource', 'uri' => ...]`
     * @param array<string, string>                            $context   the arguments that are known already
     *
     * @return array{values: list<string>, total?: int, hasMore?: bool}
     *
     * @throws Exception\PillionException as {@see request()}
     */
    public function complete(array $reference, string $argument, string $value, array $context = []): array
    {
    }

    /**
     * Answers when the server asks for a completion by a model (`sampling/createMessage`).
     * The callback gets the request's parameters; it returns a `CreateMessageResult`, the
     * text of the answer, or null for a no. What it throws ends the call.
     *
     * @param ?callable(array<string, mixed>): (array<string, mixed>|string|null) $callback null offers nothing
     */
    public function onSampling(?callable $callback): static
    {
    }

    /**
     * Answers when the server asks the user (`elicitation/create`). The callback gets the
     * request's parameters; it returns what the user did, or null, which declines. What it
     * throws ends the call.
     *
     * @param ?callable(array<string, mixed>): (array{action: 'accept'|'decline'|'cancel', content?: array<string, mixed>}|null) $callback null offers nothing
     */
    public function onElicitation(?callable $callback): static
    {
    }

    /**
     * Hears what the server says on its own account: while PHP waits for a call, and what
     * came meanwhile before the next one, the last 256 of it.
     *
     * @param ?callable(string, array<string, mixed>|\stdClass): mixed $callback
     */
    public function onNotification(?callable $callback): static
    {
    }

    /**
     * Has a person give an OAuth authorization, within this process: the callback gets the
     * page and returns the address that the browser came back to.
     *
     * @param ?callable(string): string $callback
     */
    public function onAuthorization(?callable $callback): static
    {
    }

    /**
     * The directories that the server may know of (`roots/list`); an empty list takes them away.
     *
     * @param list<string|array{uri: string, name?: string}> $roots
     *
     * @throws Exception\InvalidInputException when an entry has no URI
     */
    public function setRoots(array $roots): static
    {
    }

    /**
     * Keeps the tokens of OAuth; a store belongs to one person.
     *
     * @param ?object $store a {@see TokenStore}, or any object with its methods
     *
     * @throws Exception\InvalidInputException when it lacks a method
     */
    public function setTokenStore(?object $store): static
    {
    }

    /**
     * Asks for an authorization that is given later, as in a web application: send the
     * browser to the page; where it comes back, call {@see finishAuthorization()}, also in
     * another process. Needs the option `oauth` with a `redirect_uri`, and a token store.
     *
     * @return array{url: string, state: string}
     *
     * @throws Exception\PillionException as {@see request()}
     */
    public function startAuthorization(): array
    {
    }

    /**
     * Gets the tokens and stores them, now that the browser has come back.
     *
     * @param string $callbackUrl the whole address that the browser came back to, with its query
     *
     * @throws Exception\AuthorizationException when the answer belongs to no request of this store, or says no
     * @throws Exception\PillionException       as {@see request()}
     */
    public function finishAuthorization(
        #[\SensitiveParameter]
        string $callbackUrl,
    ): void {
    }
}
