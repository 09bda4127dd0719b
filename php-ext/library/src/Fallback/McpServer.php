<?php

declare(strict_types=1);

namespace Pillion\Fallback;

use Pillion\CancellationToken;
use Pillion\Event\ToolsListed;
use Pillion\Exception\PillionException;
use Pillion\Fallback\Registry\RequireApproval;
use Pillion\Fallback\Registry\ToolOrigin;
use Pillion\McpClient;
use Pillion\MCPServerTool;
use Pillion\MCPSSEClient;
use Pillion\ToolCall;
use Pillion\ToolDefinition;

/**
 * An MCP server as PHP code specifies it, mapped to the server that the sidecar knows.
 *
 * @internal
 */
final class McpServer
{
    /**
     * The options that the extension accepts. In the library, only `label` has an effect: the
     * sidecar's configuration determines the others.
     */
    private const OPTIONS = [
        'label', 'transport', 'handshake', 'protocol_version', 'authentication', 'headers', 'token_in_query',
        'limits', 'allow_http', 'egress',
    ];

    /** The options of McpClient that are arguments of MCPSSEClient. */
    private const ARGUMENTS = ['url' => 'serverUrl', 'timeout' => 'timeout', 'api_key' => 'apiKey'];

    public readonly Hooks $hooks;
    /** @var array<string, array<string, string>> the sidecar's tool names by socket and the server's tool names */
    private array $names = [];
    private readonly ?string $label;
    private readonly float $timeout;
    /** The URL without secrets; the sidecar identifies the server by this URL. */
    private readonly string $displayUrl;
    /** Whether PHP code specified credentials for the server. */
    private readonly bool $hasCredentials;

    /**
     * @param array<array-key, mixed> $options
     * @param list<string>            $extraOptions the options that the caller has already read
     */
    public function __construct(
        #[\SensitiveParameter]
        string $url,
        int|float $timeout,
        #[\SensitiveParameter]
        ?string $apiKey,
        #[\SensitiveParameter]
        array $options,
        array $extraOptions = [],
    ) {
        Argument::texts([1 => $url, 3 => $apiKey]);
        Json::encode($options);
        foreach (array_keys($options) as $name) {
            if ($extraOptions === [] && isset(self::ARGUMENTS[$name])) {
                throw Failure::invalidInput("Invalid MCP server option '$name': it is the argument \$" . self::ARGUMENTS[$name]);
            }
            if (!in_array($name, self::OPTIONS, true)) {
                $options = implode(', ', [...self::OPTIONS, ...$extraOptions]);
                throw Failure::invalidInput("Unknown option '$name', expected one of $options");
            }
        }
        if ($apiKey !== null && isset($options['authentication'])) {
            throw Failure::invalidInput("Give either an API key or the option 'authentication'");
        }
        $parts = parse_url($url);
        $isHttp = in_array(strtolower($parts['scheme'] ?? ''), ['http', 'https'], true) && ($parts['host'] ?? '') !== '';
        if (!$isHttp && !str_starts_with($url, 'stdio:')) {
            throw Failure::invalidInput("Invalid MCP server option 'url': use http:// or https://");
        }
        if (($parts['user'] ?? '') !== '' || ($parts['pass'] ?? '') !== '') {
            throw Failure::invalidInput("Invalid MCP server option 'url': The server URL contains a user or password: put them into 'authentication'");
        }
        $label = $options['label'] ?? null;
        if ($label !== null && !is_string($label)) {
            throw Failure::invalidInput("Invalid MCP server option 'label': it must be a string");
        }
        $this->hooks = new Hooks();
        $this->displayUrl = self::withoutSecrets($url);
        $this->label = $label;
        $this->timeout = Argument::seconds('timeout', $timeout);
        if ($this->timeout < 0.001) {
            throw Failure::invalidInput("Invalid MCP server option 'timeout': it must be at least 0.001 seconds");
        }
        $this->hasCredentials = $apiKey !== null || isset($options['authentication']) || ($options['headers'] ?? []) !== [];
    }

    /**
     * Serialization is forbidden: a queue would pass the client, possibly with credentials, to another
     * process.
     */
    public function __serialize(): never
    {
        throw new \Exception('Serialization of a client is not allowed');
    }

    /** @param MCPSSEClient|McpClient|array<array-key, mixed> $server */
    public static function forServer(#[\SensitiveParameter] MCPSSEClient|McpClient|array $server): self
    {
        $client = is_array($server) ? McpEntry::client($server) : $server;
        if ($client === null) {
            throw Failure::invalidInput("The server entry has no 'server_url'");
        }
        $class = $client instanceof McpClient ? McpClient::class : MCPSSEClient::class;
        return \Closure::bind(static fn (MCPSSEClient|McpClient $client): McpServer => $client->server(), null, $class)($client);
    }

    /** Returns the URL without secrets. */
    public function displayUrl(): string
    {
        return $this->displayUrl;
    }

    /**
     * Returns the tools in the form of `tools/list`; the schemas are trees.
     *
     * @return list<array{name: string, description: string, inputSchema: \stdClass}>
     *
     * @throws PillionException
     */
    public function listTools(): array
    {
        return array_map(static fn (array $tool): array => [
            'name' => $tool['name'],
            'description' => $tool['description'],
            'inputSchema' => $tool['schema'],
        ], $this->loadTools());
    }

    /**
     * Returns the tools for a registry.
     *
     * @return list<MCPServerTool>
     *
     * @throws PillionException
     */
    public function tools(string $prefix, RequireApproval $approval): array
    {
        Argument::texts([2 => $prefix]);
        $make = \Closure::bind(
            static fn (ToolDefinition $definition, ToolOrigin $origin, string $sidecarName, ?string $policy): MCPServerTool => new MCPServerTool($definition, $origin, $sidecarName, $policy),
            null,
            MCPServerTool::class,
        );
        return array_map(fn (array $tool): MCPServerTool => $make(
            new ToolDefinition($prefix . $tool['name'], $tool['description'], Json::toArrays($tool['schema']), category: 'mcp'),
            new ToolOrigin($this->label ?? $tool['label'], $this->displayUrl()),
            $tool['sidecarName'],
            $approval->policyFor($tool['name']),
        ), $this->loadTools());
    }

    /**
     * Calls a tool and returns the result unchanged, as a tree. A result with `isError` is returned
     * as well.
     *
     * @param array<array-key, mixed> $arguments
     *
     * @throws PillionException
     */
    public function call(
        string $name,
        array $arguments,
        string $id = '',
        ?float $timeout = null,
        ?CancellationToken $cancellation = null,
    ): mixed {
        Argument::texts([1 => $name]);
        $arguments = Json::encodeArguments($arguments);
        return CallEvents::dispatchAround([$this->callEvents($name, $id)], function () use ($name, $arguments, $timeout, $cancellation): array {
            $api = $this->api($timeout, $cancellation);
            return [$this->resultOf($name, $api->execute($this->sidecarName($name), $arguments, Context::none()))];
        })[0];
    }

    /**
     * Runs calls concurrently. A failed call has an exception in place of a result.
     *
     * @param list<ToolCall> $calls
     *
     * @return list<mixed> trees, or exceptions
     */
    public function callAll(array $calls, ?float $timeout, ?CancellationToken $cancellation): array
    {
        $events = array_map(fn (ToolCall $call): CallEvents => $this->callEvents($call->name, $call->id), $calls);
        return CallEvents::dispatchAround($events, function () use ($calls, $timeout, $cancellation): array {
            $outcomes = $requests = [];
            foreach ($calls as $index => $call) {
                try {
                    $arguments = is_array($call->arguments) ? Json::encodeArguments($call->arguments) : $call->arguments;
                    $requests[$index] = [$this->sidecarName($call->name), $arguments, $timeout ?? $this->timeout];
                } catch (PillionException $e) {
                    $outcomes[$index] = $e;
                }
            }
            $outcomes += $this->api($timeout, $cancellation)->executeAll($requests, Context::none());
            ksort($outcomes);
            return array_map(function (ToolCall $call, CallResponse|PillionException $outcome): mixed {
                try {
                    return $outcome instanceof CallResponse ? $this->resultOf($call->name, $outcome) : $outcome;
                } catch (PillionException $e) {
                    return $e;
                }
            }, $calls, $outcomes);
        });
    }

    private function sidecarName(string $name): string
    {
        $socket = SocketPath::default();
        if (!isset($this->names[$socket][$name])) {
            $this->loadTools();
        }
        return $this->names[$socket][$name] ?? throw Failure::rpc(-32602, "MCP Error (-32602): Unknown tool: $name", 'not_found');
    }

    /** @throws PillionException when the call has no result */
    private function resultOf(string $tool, CallResponse $response): mixed
    {
        $isResult = $response->success || ($response->data instanceof \stdClass && ($response->data->isError ?? false) === true);
        return $isResult ? $response->data : throw $this->toException($tool, $response);
    }

    private function callEvents(string $name, string $id): CallEvents
    {
        return new CallEvents($this->hooks, $name, $id, $this->label ?? $this->displayUrl());
    }

    /** Returns whether the sidecar knows the server and has loaded its tools. */
    public function isAvailable(): bool
    {
        try {
            $this->loadTools();
            return true;
        } catch (PillionException) {
            return false;
        }
    }

    private function toException(string $tool, CallResponse $response): PillionException
    {
        $message = $response->error ?? '';
        $code = $response->errorCode ?? 'internal_error';
        return match (true) {
            preg_match('/^MCP Error \(?(-?\d+)\)?: /', $message, $matches) === 1 => Failure::rpc((int) $matches[1], $message, $code),
            $code === 'unavailable' && preg_match('/HTTP (\d{3})/', $message, $matches) === 1 => Failure::transport($message, (int) $matches[1]),
            $code === 'unavailable', $code === 'internal_error' => Failure::transport($message),
            default => $response->toException($tool),
        };
    }

    /**
     * Returns the tools that the sidecar offers from this server.
     *
     * @return list<array{name: string, sidecarName: string, description: string, schema: \stdClass, label: string}>
     *
     * @throws PillionException
     */
    private function loadTools(): array
    {
        if ($this->hasCredentials) {
            throw Failure::unavailable(
                "The sidecar connects to {$this->displayUrl} with the credentials of its own configuration, not with those of PHP code:"
                . ' remove them here, or install the extension ext-pillion',
            );
        }
        $socket = SocketPath::default();
        [$tools, $fromCache] = $this->hooks->cached(
            "$socket\n$this->label\n{$this->displayUrl}",
            fn (): array => (new SidecarServers($this->api()))->findTools($this->label, $this->displayUrl()),
        );
        $this->names[$socket] = array_column($tools, 'sidecarName', 'name');
        $this->hooks->dispatch(new ToolsListed($this->label ?? $this->displayUrl(), count($tools), $fromCache));
        return $tools;
    }

    private function api(?float $timeout = null, ?CancellationToken $cancellation = null): SidecarApi
    {
        return new SidecarApi(SocketPath::default(), $timeout ?? $this->timeout, $cancellation);
    }

    private static function withoutSecrets(string $url): string
    {
        return str_starts_with($url, 'stdio:') ? $url : EntryRedactor::formatUrl(parse_url($url));
    }
}
