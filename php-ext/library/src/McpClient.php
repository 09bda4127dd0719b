<?php

declare(strict_types=1);

namespace Pillion;

use Pillion\Fallback\Argument;
use Pillion\Fallback\Calls;
use Pillion\Fallback\ClientHooks;
use Pillion\Fallback\Failure;
use Pillion\Fallback\Json;
use Pillion\Fallback\McpEntry;
use Pillion\Fallback\McpOptions;

/**
 * An MCP server that the sidecar knows: by the option `label`, else by its URL. Tools can be
 * listed and called; everything else needs the extension, and says so.
 *
 * Results are what the server sent: objects as associative arrays, but `{}` as an empty
 * `stdClass`, so that `json_encode()` gives back what came.
 */
class McpClient
{
    use ClientHooks;

    /**
     * Does no I/O.
     *
     * @param string|array{url?: string, command?: string|list<string>, args?: list<string>, env?: array<string, string>, inherit_env?: list<string>, cwd?: string, ...} $server
     *   a URL; or an array with `url` or `command`, and options
     * @param array{timeout?: int|float, api_key?: string, oauth?: array<string, mixed>, roots?: list<string|array{uri: string, name?: string}>, label?: string, transport?: string, handshake?: string, protocol_version?: string, headers?: array<string, string>, allow_http?: bool, ...} $options
     *   see docs/PHP.md
     *
     * @throws Exception\InvalidInputException when the server or an option is not valid
     * @throws Exception\UnavailableException  for roots, which cannot go through the sidecar
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
        Argument::texts([1 => $method]);
        return match ($method) {
            'tools/list' => ['tools' => $this->listTools()],
            'tools/call' => Json::shown($this->server()->call(...Calls::parameters($params))),
            default => throw self::needsExtension("The request '$method'"),
        };
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
        throw self::needsExtension("The notification '$method'");
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
        throw self::needsExtension('What a server says of itself');
    }

    /** @throws Exception\PillionException as {@see request()}, when the server does not answer */
    public function ping(): void
    {
        $this->server()->listed();
    }

    /** Whether the server answers now. */
    public function isAvailable(): bool
    {
        return $this->server()->isAvailable();
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
        throw self::needsExtension('The log of a server');
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
        $options = new McpOptions($options);
        $calls = Calls::named($calls);
        return array_map(
            static fn (ToolCall $call, mixed $outcome): ToolResult => $outcome instanceof \Throwable
                ? McpOptions::failure($call->id, $call->name, $outcome)
                : McpOptions::result($call->id, $call->name, $outcome),
            $calls,
            $this->server()->callAll($calls, $options->timeout, $options->cancellation),
        );
    }

    /**
     * A call as a stream. The sidecar tells no progress, so it has no reports, only the result.
     *
     * @param array<string, mixed> $arguments
     * @param array{timeout?: int|float, cancellation?: CancellationToken, meta?: array<string, mixed>, id?: string} $options
     *
     * @throws Exception\InvalidInputException when an argument or an option is wrong
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
     * The tools of the server as it lists them.
     *
     * @return list<array<string, mixed>>
     *
     * @throws Exception\PillionException as {@see request()}
     */
    public function listTools(): array
    {
        return Json::shown($this->server()->listed());
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
        throw self::needsExtension('Resources');
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
        throw self::needsExtension('Resources');
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
        throw self::needsExtension('Resources');
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
        throw self::needsExtension('Prompts');
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
        throw self::needsExtension('Prompts');
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
        throw self::needsExtension('Completion');
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
        return $callback === null ? $this : throw self::needsExtension('Sampling');
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
        return $callback === null ? $this : throw self::needsExtension('Elicitation');
    }

    /**
     * Hears what the server says on its own account: while PHP waits for a call, and what
     * came meanwhile before the next one, the last 256 of it.
     *
     * @param ?callable(string, array<string, mixed>|\stdClass): mixed $callback
     */
    public function onNotification(?callable $callback): static
    {
        return $callback === null ? $this : throw self::needsExtension('Notifications');
    }

    /**
     * Has a person give an OAuth authorization, within this process: the callback gets the
     * page and returns the address that the browser came back to.
     *
     * @param ?callable(string): string $callback
     */
    public function onAuthorization(?callable $callback): static
    {
        return $callback === null ? $this : throw self::needsExtension('OAuth');
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
        return $roots === [] ? $this : throw self::needsExtension('Roots');
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
        return $store === null ? $this : throw self::needsExtension('OAuth');
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
        throw self::needsExtension('OAuth');
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
        throw self::needsExtension('OAuth');
    }

    private static function needsExtension(string $what): Exception\UnavailableException
    {
        return Failure::unavailable("$what cannot go through the sidecar: the extension ext-pillion can do it");
    }
}
