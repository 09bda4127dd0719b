<?php

declare(strict_types=1);

namespace Pillion;

use Pillion\Fallback\Argument;
use Pillion\Fallback\CallParser;
use Pillion\Fallback\ClientHooks;
use Pillion\Fallback\Failure;
use Pillion\Fallback\Json;
use Pillion\Fallback\McpEntry;
use Pillion\Fallback\McpOptions;

/**
 * A client for an MCP server: tools, resources, prompts, completion, progress, cancellation, and requests from the
 * server.
 *
 * Results are returned as the server sent them. JSON objects become associative arrays, except `{}`
 * and objects with the keys `0`, `1` and so on, which become a `stdClass`, so that `json_encode()`
 * reproduces the original JSON. The extension's process owns the sessions: clients with the same
 * configuration, credentials and callbacks for server requests share one open session, even across
 * requests of an FPM worker. Callbacks belong to the client object and run on PHP's thread while
 * PHP waits for a call.
 *
 * With the library, the sidecar connects to the server and finds it by the option `label`, or
 * otherwise by its URL. With the library, the client can only list and call tools; all other
 * requests throw an {@see Exception\UnavailableException}.
 */
class McpClient
{
    use ClientHooks;

    /**
     * Creates a client without any I/O.
     *
     * @param string|array{url?: string, command?: string|list<string>, args?: list<string>, env?: array<string, string>, inherit_env?: list<string>, cwd?: string, ...} $server
     *   a URL; or an array with `url` or `command`, and options
     * @param array{timeout?: int|float, api_key?: string, oauth?: array<string, mixed>, roots?: list<string|array{uri: string, name?: string}>, label?: string, transport?: string, handshake?: string, protocol_version?: string, headers?: array<string, string>, allow_http?: bool, ...} $options
     *   see docs/reference/php-mcp-clients.md
     *
     * @throws Exception\InvalidInputException when the server or an option is not valid
     * @throws Exception\UnavailableException  with the library: for roots, which the sidecar does not support
     */
    public function __construct(
        #[\SensitiveParameter]
        string|array $server,
        #[\SensitiveParameter]
        array $options = [],
    ) {
        $this->server = McpEntry::server($server, $options);
    }

    /**
     * Sends a request with any method, and returns the JSON-RPC `result` unchanged.
     *
     * @param array<string, mixed> $params
     *
     * @throws Exception\TransportException      when the server cannot be reached or sends an invalid response
     * @throws Exception\SessionExpiredException when the server no longer knows the session, and
     *     the request fails in a new session as well
     * @throws Exception\AuthorizationException  when the server requires a credential or rejects it
     * @throws Exception\TimeoutException
     * @throws Exception\JsonRpcException        when the server responds with a JSON-RPC error
     * @throws Exception\RateLimitedException    when the server responds with HTTP 429
     * @throws Exception\InvalidInputException   when the parameters cannot be converted to JSON
     */
    public function request(string $method, array $params = []): mixed
    {
        Argument::checkTexts([1 => $method]);
        return match ($method) {
            'tools/list' => ['tools' => $this->listTools()],
            'tools/call' => Json::toLosslessArrays($this->server()->call(...CallParser::parseParameters($params))),
            default => throw self::needsExtension("the request '$method'"),
        };
    }

    /**
     * Sends a notification to the server.
     *
     * @param array<string, mixed> $params
     *
     * @throws Exception\PillionException as {@see request()}
     */
    public function notify(string $method, array $params = []): void
    {
        throw self::needsExtension("the notification '$method'");
    }

    /**
     * Returns the server's name, version, capabilities and instructions, and the negotiated transport and
     * protocol revision. Connects if necessary.
     *
     * @return array{name: ?string, version: ?string, protocol_version: ?string, transport: string, capabilities: array<string, mixed>|\stdClass, instructions: ?string}
     *
     * @throws Exception\PillionException as {@see request()}
     */
    public function getServerInfo(): array
    {
        throw self::needsExtension('server information');
    }

    /** @throws Exception\PillionException as {@see request()}, when the server does not respond */
    public function ping(): void
    {
        $this->server()->listTools();
    }

    /** Returns whether the server responds to a request now. */
    public function isAvailable(): bool
    {
        return $this->server()->isAvailable();
    }

    /**
     * Sets the minimum level of the log messages that the server sends. The callback of {@see onNotification()}
     * receives these messages.
     *
     * @param string $level debug, info, notice, warning, error, critical, alert or emergency
     *
     * @throws Exception\PillionException as {@see request()}
     */
    public function setLoggingLevel(string $level): void
    {
        throw self::needsExtension('log levels of servers');
    }

    /**
     * Calls a tool. A result with `isError` becomes a failed {@see ToolResult}.
     *
     * @param array<string, mixed> $arguments
     * @param array{timeout?: int|float, on_progress?: callable(Progress, string): mixed, cancellation?: CancellationToken, meta?: array<string, mixed>, id?: string} $options
     *
     * @throws Exception\CancelledException when the token was cancelled
     * @throws Exception\PillionException   as {@see request()}
     */
    public function callTool(string $name, array $arguments = [], array $options = []): ToolResult
    {
        $callOptions = new McpOptions($options);
        return McpOptions::toResult($callOptions->id, $name, $this->server()->call(
            $name,
            $arguments,
            $callOptions->id,
            $callOptions->timeout,
            $callOptions->cancellation,
        ));
    }

    /**
     * Calls tools concurrently over one session. Returns one result for each call, in the order of
     * the calls; every failed call has a failed result instead of an exception.
     *
     * @param list<ToolCall|array{name: string, arguments?: array<string, mixed>|string, id?: string}> $calls
     * @param array{timeout?: int|float, on_progress?: callable(Progress, string): mixed, cancellation?: CancellationToken, meta?: array<string, mixed>, max_concurrent?: int} $options
     *
     * @return list<ToolResult>
     *
     * @throws Exception\InvalidInputException when an entry is not a call, or an option is invalid
     */
    public function callTools(array $calls, array $options = []): array
    {
        $callOptions = new McpOptions($options);
        $parsedCalls = CallParser::parseAllWithOptionalIds($calls);
        return array_map(
            static fn (ToolCall $call, mixed $outcome): ToolResult => $outcome instanceof \Throwable
                ? McpOptions::toFailedResult($call->id, $call->name, $outcome)
                : McpOptions::toResult($call->id, $call->name, $outcome),
            $parsedCalls,
            $this->server()->callAll($parsedCalls, $callOptions->timeout, $callOptions->cancellation),
        );
    }

    /**
     * Starts a call and returns a stream of its progress.
     *
     * @param array<string, mixed> $arguments
     * @param array{timeout?: int|float, cancellation?: CancellationToken, meta?: array<string, mixed>, id?: string} $options
     *
     * @throws Exception\InvalidInputException when an argument or an option is invalid
     */
    public function streamTool(string $name, array $arguments = [], array $options = []): ToolStream
    {
        new McpOptions($options);
        Json::encode($arguments);
        return \Closure::bind(
            static fn (\Closure $call): ToolStream => new ToolStream($call),
            null,
            ToolStream::class,
        )(fn (): ToolResult => $this->callTool($name, $arguments, $options));
    }

    /**
     * Returns the server's tools as listed by the server.
     *
     * @return list<array<string, mixed>>
     *
     * @throws Exception\PillionException as {@see request()}
     */
    public function listTools(): array
    {
        return Json::toLosslessArrays($this->server()->listTools());
    }

    /**
     * Returns the server's resources.
     *
     * @return list<array<string, mixed>>
     *
     * @throws Exception\PillionException as {@see request()}
     */
    public function listResources(): array
    {
        throw self::needsExtension('resources');
    }

    /**
     * Returns the server's resource templates.
     *
     * @return list<array<string, mixed>>
     *
     * @throws Exception\PillionException as {@see request()}
     */
    public function listResourceTemplates(): array
    {
        throw self::needsExtension('resources');
    }

    /**
     * Reads a resource and returns the complete result.
     *
     * @return array{contents: list<array<string, mixed>>, ...}
     *
     * @throws Exception\PillionException as {@see request()}
     */
    public function readResource(string $uri): array
    {
        throw self::needsExtension('resources');
    }

    /**
     * Returns the server's prompts.
     *
     * @return list<array<string, mixed>>
     *
     * @throws Exception\PillionException as {@see request()}
     */
    public function listPrompts(): array
    {
        throw self::needsExtension('prompts');
    }

    /**
     * Returns a prompt with the arguments filled in, as the complete result.
     *
     * @param array<string, string> $arguments
     *
     * @return array{messages: list<array<string, mixed>>, description?: string, ...}
     *
     * @throws Exception\PillionException as {@see request()}
     */
    public function getPrompt(string $name, array $arguments = []): array
    {
        throw self::needsExtension('prompts');
    }

    /**
     * Returns completions for an argument of a prompt or of a resource template.
     *
     * @param array{type: string, name?: string, uri?: string} $reference `['type' => 'ref/prompt', 'name' => ...]` or `['type' => 'ref/resource', 'uri' => ...]`
     * @param array<string, string>                            $context   the arguments that are already known
     *
     * @return array{values: list<string>, total?: int, hasMore?: bool}
     *
     * @throws Exception\PillionException as {@see request()}
     */
    public function complete(array $reference, string $argument, string $value, array $context = []): array
    {
        throw self::needsExtension('completion');
    }

    /**
     * Sets the callback for sampling requests (`sampling/createMessage`). The callback receives the request's
     * parameters and returns a `CreateMessageResult`, the text of the response, or null to decline. An exception from
     * the callback ends the call.
     *
     * @param ?callable(array<string, mixed>): (array<string, mixed>|string|null) $callback null if
     *     the client should not offer sampling
     */
    public function onSampling(?callable $callback): static
    {
        return $callback === null ? $this : throw self::needsExtension('sampling');
    }

    /**
     * Sets the callback for elicitation requests (`elicitation/create`). The callback receives the request's
     * parameters and returns the user's response, or null to decline. An exception from the callback ends the
     * call.
     *
     * @param ?callable(array<string, mixed>): (array{action: 'accept'|'decline'|'cancel', content?:
     *     array<string, mixed>}|null) $callback null if the client should not offer elicitation
     */
    public function onElicitation(?callable $callback): static
    {
        return $callback === null ? $this : throw self::needsExtension('elicitation');
    }

    /**
     * Sets the callback for notifications from the server. The callback runs while PHP waits for a
     * call; the last 256 notifications that arrive between calls are delivered before the next
     * call.
     *
     * @param ?callable(string, array<string, mixed>|\stdClass): mixed $callback
     */
    public function onNotification(?callable $callback): static
    {
        return $callback === null ? $this : throw self::needsExtension('notifications');
    }

    /**
     * Sets the callback for an OAuth authorization within this process. The callback receives the URL of the
     * authorization page and returns the URL that the browser was redirected to.
     *
     * @param ?callable(string): string $callback
     */
    public function onAuthorization(?callable $callback): static
    {
        return $callback === null ? $this : throw self::needsExtension('OAuth');
    }

    /**
     * Sets the directories that the server may access (`roots/list`). An empty list removes all roots.
     *
     * @param list<string|array{uri: string, name?: string}> $roots
     *
     * @throws Exception\InvalidInputException when an entry has no URI
     */
    public function setRoots(array $roots): static
    {
        return $roots === [] ? $this : throw self::needsExtension('roots');
    }

    /**
     * Sets the store for OAuth tokens. A store belongs to one user.
     *
     * @param ?object $store a {@see TokenStore}, or any object with its methods
     *
     * @throws Exception\InvalidInputException when the object lacks a method
     */
    public function setTokenStore(?object $store): static
    {
        return $store === null ? $this : throw self::needsExtension('OAuth');
    }

    /**
     * Starts an authorization that finishes later, as in a web application: redirect the browser to
     * the returned URL; when the browser returns, call {@see finishAuthorization()}, in this or in
     * another process. Requires the option `oauth` with a `redirect_uri`, and a token store.
     *
     * @return array{url: string, state: string}
     *
     * @throws Exception\PillionException as {@see request()}
     */
    public function startAuthorization(): array
    {
        throw self::needsExtension('OAuth');
    }

    /**
     * Finishes an authorization after the browser has returned: requests the tokens and stores
     * them.
     *
     * @param string $callbackUrl the complete URL that the browser returned to, with its query
     *
     * @throws Exception\AuthorizationException when the response matches no pending authorization of this store, or denies the authorization
     * @throws Exception\PillionException       as {@see request()}
     */
    public function finishAuthorization(
        #[\SensitiveParameter]
        string $callbackUrl,
    ): void {
        throw self::needsExtension('OAuth');
    }

    private static function needsExtension(string $feature): Exception\UnavailableException
    {
        return Failure::unavailable("The sidecar does not support $feature: install the extension ext-pillion");
    }
}
