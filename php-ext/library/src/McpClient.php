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
 * Results are what the server sent: objects are associative arrays, but `{}`, and an object with the keys `0`, `1` and
 * so on, is a `stdClass`, so that `json_encode()` reproduces the original JSON. The extension's process owns the
 * sessions: clients with the same configuration, credentials and callbacks for server requests share one open session,
 * also across requests of an FPM worker. Callbacks belong to the client object and run on PHP's thread while PHP waits
 * for a call.
 *
 * With the library, the sidecar connects to the server and finds it by the option `label`, or otherwise by its URL. The
 * client can then list and call tools; a method for anything else throws an {@see Exception\UnavailableException}.
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
     * Sends any request and returns the JSON-RPC `result` unchanged.
     *
     * @param array<string, mixed> $params
     *
     * @throws Exception\TransportException      when the server cannot be reached or sends an invalid response
     * @throws Exception\SessionExpiredException when the server no longer knows the session, and a new session does not help
     * @throws Exception\AuthorizationException  when the server requires a credential or rejects it
     * @throws Exception\TimeoutException
     * @throws Exception\JsonRpcException        when the server answers with a JSON-RPC error
     * @throws Exception\RateLimitedException    when the server answers with HTTP 429
     * @throws Exception\InvalidInputException   when the parameters cannot be converted to JSON
     */
    public function request(string $method, array $params = []): mixed
    {
        Argument::texts([1 => $method]);
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

    /** @throws Exception\PillionException as {@see request()}, when the server does not answer */
    public function ping(): void
    {
        $this->server()->listTools();
    }

    /** Returns whether the server answers now. */
    public function isAvailable(): bool
    {
        return $this->server()->isAvailable();
    }

    /**
     * Sets the minimum level of the log messages that the server sends; {@see onNotification()} receives
     * them.
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
        $options = new McpOptions($options);
        return McpOptions::result($options->id, $name, $this->server()->call(
            $name,
            $arguments,
            $options->id,
            $options->timeout,
            $options->cancellation,
        ));
    }

    /**
     * Calls tools concurrently over one session. Returns one result for each call, in the order of the calls;
     * a failed call has a failed result, whatever the reason.
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
        $options = new McpOptions($options);
        $calls = CallParser::parseAllWithOptionalIds($calls);
        return array_map(
            static fn (ToolCall $call, mixed $outcome): ToolResult => $outcome instanceof \Throwable
                ? McpOptions::failure($call->id, $call->name, $outcome)
                : McpOptions::result($call->id, $call->name, $outcome),
            $calls,
            $this->server()->callAll($calls, $options->timeout, $options->cancellation),
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
     * parameters and returns a `CreateMessageResult`, the text of the answer, or null to decline. An
     * exception from the callback ends the call.
     *
     * @param ?callable(array<string, mixed>): (array<string, mixed>|string|null) $callback null: the client does not offer sampling
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
     * @param ?callable(array<string, mixed>): (array{action: 'accept'|'decline'|'cancel', content?: array<string, mixed>}|null) $callback null: the client does not offer elicitation
     */
    public function onElicitation(?callable $callback): static
    {
        return $callback === null ? $this : throw self::needsExtension('elicitation');
    }

    /**
     * Sets the callback for notifications from the server. The callback runs while PHP waits for a call;
     * notifications that arrive between calls are delivered before the next call (the last 256).
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
     * Starts an authorization that finishes later, as in a web application: redirect the browser to the
     * returned URL; when the browser returns, call {@see finishAuthorization()}, also in another process.
     * Requires the option `oauth` with a `redirect_uri`, and a token store.
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
     * Requests the tokens and stores them after the browser has returned.
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
