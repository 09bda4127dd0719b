<?php

declare(strict_types=1);

namespace Pillion\Fallback;

use Pillion\CancellationToken;
use Pillion\Event\ToolsListed;
use Pillion\Exception\PillionException;
use Pillion\Fallback\Registry\Origin;
use Pillion\Fallback\Registry\RequireApproval;
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
     * The options that the extension accepts. Here only `label` has an effect: the sidecar's configuration
     * determines the others.
     */
    private const OPTIONS = [
        'label', 'transport', 'handshake', 'protocol_version', 'authentication', 'headers', 'token_in_query',
        'limits', 'allow_http', 'egress',
    ];

    /** The options of McpClient that are arguments of MCPSSEClient. */
    private const ARGUMENTS = ['url' => 'serverUrl', 'timeout' => 'timeout', 'api_key' => 'apiKey'];

    public readonly Hooks $hooks;
    /** @var ?array<string, string> the sidecar's tool names by the server's tool names, once loaded */
    private ?array $names = null;
    private readonly ?string $label;
    private readonly float $timeout;
    /** The URL without secrets; the sidecar identifies the server by this URL. */
    private readonly string $shownUrl;
    /** Whether PHP code specified credentials for the server. */
    private readonly bool $hasCredentials;

    /**
     * @param array<array-key, mixed> $options
     * @param list<string>            $more    the options that the caller has already read
     */
    public function __construct(
        #[\SensitiveParameter]
        string $url,
        int|float $timeout,
        #[\SensitiveParameter]
        ?string $apiKey,
        #[\SensitiveParameter]
        array $options,
        array $more = [],
    ) {
        Argument::texts([1 => $url, 3 => $apiKey]);
        Json::encode($options);
        foreach (array_keys($options) as $name) {
            if ($more === [] && isset(self::ARGUMENTS[$name])) {
                throw Failure::invalidInput("Invalid MCP server option '$name': it is the argument \$" . self::ARGUMENTS[$name]);
            }
            if (!in_array($name, self::OPTIONS, true)) {
                $options = implode(', ', [...self::OPTIONS, ...$more]);
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
        $this->shownUrl = self::shown($url);
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
    public static function of(#[\SensitiveParameter] MCPSSEClient|McpClient|array $server): self
    {
        $client = is_array($server) ? McpEntry::client($server) : $server;
        if ($client === null) {
            throw Failure::invalidInput("The server entry has no 'server_url'");
        }
        $class = $client instanceof McpClient ? McpClient::class : MCPSSEClient::class;
        return \Closure::bind(static fn (MCPSSEClient|McpClient $client): McpServer => $client->server(), null, $class)($client);
    }

    /** Returns the URL without secrets. */
    public function shownUrl(): string
    {
        return $this->shownUrl;
    }

    /**
     * Returns the tools in the form of `tools/list`; the schemas are trees.
     *
     * @return list<array{name: string, description: string, inputSchema: \stdClass}>
     *
     * @throws PillionException
     */
    public function listed(): array
    {
        return array_map(static fn (array $tool): array => [
            'name' => $tool['name'],
            'description' => $tool['description'],
            'inputSchema' => $tool['schema'],
        ], $this->offered());
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
            static fn (ToolDefinition $definition, Origin $origin, string $sidecarName, ?string $policy): MCPServerTool => new MCPServerTool($definition, $origin, $sidecarName, $policy),
            null,
            MCPServerTool::class,
        );
        return array_map(fn (array $tool): MCPServerTool => $make(
            new ToolDefinition($prefix . $tool['name'], $tool['description'], Json::arrays($tool['schema']), category: 'mcp'),
            new Origin($this->label ?? $tool['label'], $this->shownUrl()),
            $tool['sidecarName'],
            $approval->of($tool['name']),
        ), $this->offered());
    }

    /**
     * Calls a tool and returns the result unchanged, as a tree; also a result with `isError`.
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
        return ToldCall::all([$this->told($name, $id)], function () use ($name, $arguments, $timeout, $cancellation): array {
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
        $told = array_map(fn (ToolCall $call): ToldCall => $this->told($call->name, $call->id), $calls);
        return ToldCall::all($told, function () use ($calls, $timeout, $cancellation): array {
            $outcomes = $asked = [];
            foreach ($calls as $place => $call) {
                try {
                    $arguments = is_array($call->arguments) ? Json::encodeArguments($call->arguments) : $call->arguments;
                    $asked[$place] = [$this->sidecarName($call->name), $arguments, $timeout ?? $this->timeout];
                } catch (PillionException $e) {
                    $outcomes[$place] = $e;
                }
            }
            $outcomes += $this->api($timeout, $cancellation)->executeAll($asked, Context::none());
            ksort($outcomes);
            return array_map(function (ToolCall $call, Answer|PillionException $outcome): mixed {
                try {
                    return $outcome instanceof Answer ? $this->resultOf($call->name, $outcome) : $outcome;
                } catch (PillionException $e) {
                    return $e;
                }
            }, $calls, $outcomes);
        });
    }

    private function sidecarName(string $name): string
    {
        if (!isset($this->names[$name])) {
            $this->offered();
        }
        return $this->names[$name] ?? throw Failure::rpc(-32602, "MCP Error (-32602): Unknown tool: $name", 'not_found');
    }

    /** @throws PillionException when the call has no result */
    private function resultOf(string $tool, Answer $answer): mixed
    {
        $isResult = $answer->success || ($answer->data instanceof \stdClass && ($answer->data->isError ?? false) === true);
        return $isResult ? $answer->data : throw $this->failure($tool, $answer);
    }

    private function told(string $name, string $id): ToldCall
    {
        return new ToldCall($this->hooks, $name, $id, $this->label ?? $this->shownUrl());
    }

    /** Returns whether the sidecar knows the server and has loaded its tools. */
    public function isAvailable(): bool
    {
        try {
            $this->offered();
            return true;
        } catch (PillionException) {
            return false;
        }
    }

    private function failure(string $tool, Answer $answer): PillionException
    {
        $message = $answer->error ?? '';
        $code = $answer->errorCode ?? 'internal_error';
        return match (true) {
            preg_match('/^MCP Error \(?(-?\d+)\)?: /', $message, $found) === 1 => Failure::rpc((int) $found[1], $message, $code),
            $code === 'unavailable' && preg_match('/HTTP (\d{3})/', $message, $found) === 1 => Failure::transport($message, (int) $found[1]),
            $code === 'unavailable', $code === 'internal_error' => Failure::transport($message),
            default => $answer->failure($tool),
        };
    }

    /**
     * Returns the tools that the sidecar offers from this server.
     *
     * @return list<array{name: string, sidecarName: string, description: string, schema: \stdClass, label: string}>
     *
     * @throws PillionException
     */
    private function offered(): array
    {
        if ($this->hasCredentials) {
            throw Failure::unavailable(
                "The sidecar speaks to {$this->shownUrl} with the credentials of its own configuration, never with those of PHP code:"
                . ' leave them out here, or install the extension ext-pillion',
            );
        }
        [$tools, $fromCache] = $this->hooks->cached(
            SocketPath::default() . "\n$this->label\n{$this->shownUrl}",
            fn (): array => (new SidecarServers($this->api()))->offer($this->label, $this->shownUrl()),
        );
        $this->names = array_column($tools, 'sidecarName', 'name');
        $this->hooks->dispatch(new ToolsListed($this->label ?? $this->shownUrl(), count($tools), $fromCache));
        return $tools;
    }

    private function api(?float $timeout = null, ?CancellationToken $cancellation = null): SidecarApi
    {
        return new SidecarApi(SocketPath::default(), $timeout ?? $this->timeout, $cancellation);
    }

    private static function shown(string $url): string
    {
        if (str_starts_with($url, 'stdio:')) {
            return $url;
        }
        $parts = parse_url($url);
        $port = isset($parts['port']) ? ":{$parts['port']}" : '';
        return strtolower($parts['scheme']) . '://' . strtolower($parts['host']) . $port . ($parts['path'] ?? '/');
    }
}
