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
 * An MCP server that PHP code specifies, and the corresponding server in the sidecar's
 * configuration.
 *
 * @internal
 */
final class McpServer
{
    /**
     * The options that the extension accepts. In the library, only the option `label` has an
     * effect; the sidecar's configuration determines the other settings.
     */
    private const OPTIONS = [
        'label', 'transport', 'handshake', 'protocol_version', 'authentication', 'headers', 'token_in_query',
        'limits', 'allow_http', 'egress',
    ];

    /**
     * The names of MCPSSEClient's arguments, keyed by the names of the corresponding options of
     * McpClient.
     */
    private const ARGUMENTS_BY_OPTION = ['url' => 'serverUrl', 'timeout' => 'timeout', 'api_key' => 'apiKey'];

    public readonly Hooks $hooks;
    /** @var array<string, array<string, string>> the sidecar's tool names, by socket and by tool name on the server */
    private array $sidecarNames = [];
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
        Argument::checkTexts([1 => $url, 3 => $apiKey]);
        Json::encode($options);
        foreach (array_keys($options) as $name) {
            if ($extraOptions === [] && isset(self::ARGUMENTS_BY_OPTION[$name])) {
                throw Failure::invalidInput("Invalid MCP server option '$name': pass the argument \$" . self::ARGUMENTS_BY_OPTION[$name] . ' instead');
            }
            if (!in_array($name, self::OPTIONS, true)) {
                $knownNames = implode(', ', [...self::OPTIONS, ...$extraOptions]);
                throw Failure::invalidInput("Unknown option '$name', expected one of $knownNames");
            }
        }
        if ($apiKey !== null && isset($options['authentication'])) {
            throw Failure::invalidInput("Pass only one of an API key and the option 'authentication'");
        }
        $urlParts = parse_url($url);
        $isHttp = in_array(strtolower($urlParts['scheme'] ?? ''), ['http', 'https'], true) && ($urlParts['host'] ?? '') !== '';
        if (!$isHttp && !str_starts_with($url, 'stdio:')) {
            throw Failure::invalidInput("Invalid MCP server option 'url': use http:// or https://");
        }
        if (($urlParts['user'] ?? '') !== '' || ($urlParts['pass'] ?? '') !== '') {
            throw Failure::invalidInput("Invalid MCP server option 'url': The server URL contains a user or password: put them into 'authentication'");
        }
        $label = $options['label'] ?? null;
        if ($label !== null && !is_string($label)) {
            throw Failure::invalidInput("Invalid MCP server option 'label': it must be a string");
        }
        $this->hooks = new Hooks();
        $this->displayUrl = self::removeSecrets($url);
        $this->label = $label;
        $this->timeout = Argument::checkSeconds('timeout', $timeout);
        if ($this->timeout < 0.001) {
            throw Failure::invalidInput("Invalid MCP server option 'timeout': at least 0.001 seconds are required");
        }
        $this->hasCredentials = $apiKey !== null || isset($options['authentication']) || ($options['headers'] ?? []) !== [];
    }

    /**
     * Serialization throws an exception, because a queue would otherwise pass the client, possibly
     * with credentials, to another process.
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
     * Returns the tools as in the result of `tools/list`; the schemas are JSON trees.
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
    public function loadRegistryTools(string $prefix, RequireApproval $approval): array
    {
        Argument::checkTexts([2 => $prefix]);
        $createTool = \Closure::bind(
            static fn (ToolDefinition $definition, ToolOrigin $origin, string $sidecarName, ?string $policy): MCPServerTool => new MCPServerTool($definition, $origin, $sidecarName, $policy),
            null,
            MCPServerTool::class,
        );
        return array_map(fn (array $tool): MCPServerTool => $createTool(
            new ToolDefinition($prefix . $tool['name'], $tool['description'], Json::toArrays($tool['schema']), category: 'mcp'),
            new ToolOrigin($this->label ?? $tool['label'], $this->displayUrl()),
            $tool['sidecarName'],
            $approval->policyFor($tool['name']),
        ), $this->loadTools());
    }

    /**
     * Calls a tool and returns the result unchanged, as a JSON tree. A result with `isError` is
     * returned as well.
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
        Argument::checkTexts([1 => $name]);
        $encodedArguments = Json::encodeArguments($arguments);
        return CallEvents::dispatchAround([$this->createEvents($name, $id)], function () use ($name, $encodedArguments, $timeout, $cancellation): array {
            $api = $this->createApi($timeout, $cancellation);
            return [$this->extractResult($name, $api->execute($this->findSidecarName($name), $encodedArguments, Context::createEmpty()))];
        })[0];
    }

    /**
     * Runs calls concurrently. A failed call has an exception in place of a result.
     *
     * @param list<ToolCall> $calls
     *
     * @return list<mixed> JSON trees, or exceptions
     */
    public function callAll(array $calls, ?float $timeout, ?CancellationToken $cancellation): array
    {
        $events = array_map(fn (ToolCall $call): CallEvents => $this->createEvents($call->name, $call->id), $calls);
        return CallEvents::dispatchAround($events, function () use ($calls, $timeout, $cancellation): array {
            $outcomes = $requests = [];
            foreach ($calls as $index => $call) {
                try {
                    $encodedArguments = is_array($call->arguments) ? Json::encodeArguments($call->arguments) : $call->arguments;
                    $requests[$index] = [$this->findSidecarName($call->name), $encodedArguments, $timeout ?? $this->timeout];
                } catch (PillionException $exception) {
                    $outcomes[$index] = $exception;
                }
            }
            $outcomes += $this->createApi($timeout, $cancellation)->executeAll($requests, Context::createEmpty());
            ksort($outcomes);
            return array_map(function (ToolCall $call, CallResponse|PillionException $outcome): mixed {
                try {
                    return $outcome instanceof CallResponse ? $this->extractResult($call->name, $outcome) : $outcome;
                } catch (PillionException $exception) {
                    return $exception;
                }
            }, $calls, $outcomes);
        });
    }

    private function findSidecarName(string $name): string
    {
        $socket = SocketPath::default();
        if (!isset($this->sidecarNames[$socket][$name])) {
            $this->loadTools();
        }
        return $this->sidecarNames[$socket][$name] ?? throw Failure::rpc(-32602, "MCP Error (-32602): Unknown tool: $name", 'not_found');
    }

    /** @throws PillionException when the call has no result */
    private function extractResult(string $toolName, CallResponse $response): mixed
    {
        $isResult = $response->success || ($response->data instanceof \stdClass && ($response->data->isError ?? false) === true);
        return $isResult ? $response->data : throw $this->toException($toolName, $response);
    }

    private function createEvents(string $name, string $id): CallEvents
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

    private function toException(string $toolName, CallResponse $response): PillionException
    {
        $message = $response->error ?? '';
        $code = $response->errorCode ?? 'internal_error';
        return match (true) {
            preg_match('/^MCP Error \(?(-?\d+)\)?: /', $message, $matches) === 1 => Failure::rpc((int) $matches[1], $message, $code),
            $code === 'unavailable' && preg_match('/HTTP (\d{3})/', $message, $matches) === 1 => Failure::transport($message, (int) $matches[1]),
            $code === 'unavailable', $code === 'internal_error' => Failure::transport($message),
            default => $response->toException($toolName),
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
                "The sidecar connects to {$this->displayUrl} with the credentials in the sidecar's configuration,"
                . ' not with credentials from PHP code: remove the credentials from the PHP code,'
                . ' or install the extension ext-pillion',
            );
        }
        $socket = SocketPath::default();
        [$tools, $fromCache] = $this->hooks->loadWithCache(
            "$socket\n$this->label\n{$this->displayUrl}",
            fn (): array => (new SidecarServers($this->createApi()))->findTools($this->label, $this->displayUrl()),
        );
        $this->sidecarNames[$socket] = array_column($tools, 'sidecarName', 'name');
        $this->hooks->dispatch(new ToolsListed($this->label ?? $this->displayUrl(), count($tools), $fromCache));
        return $tools;
    }

    private function createApi(?float $timeout = null, ?CancellationToken $cancellation = null): SidecarApi
    {
        return new SidecarApi(SocketPath::default(), $timeout ?? $this->timeout, $cancellation);
    }

    private static function removeSecrets(string $url): string
    {
        return str_starts_with($url, 'stdio:') ? $url : EntryRedactor::formatUrl(parse_url($url));
    }
}
