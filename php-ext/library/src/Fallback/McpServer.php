<?php

declare(strict_types=1);

namespace Pillion\Fallback;

use Pillion\Exception\PillionException;
use Pillion\Fallback\Registry\Origin;
use Pillion\MCPServerTool;
use Pillion\MCPSSEClient;
use Pillion\ToolDefinition;

/**
 * An MCP server as PHP code names it, and as the sidecar knows it.
 *
 * @internal
 */
final class McpServer
{
    /** The options that the extension takes. Here only the label is of use: the rest is the sidecar's to know. */
    private const OPTIONS = [
        'label', 'transport', 'handshake', 'protocol_version', 'authentication', 'headers', 'token_in_query',
        'limits', 'allow_http', 'egress',
    ];

    /** @var ?array<string, string> the sidecar's names of the tools, by the server's, once they were asked for */
    private ?array $names = null;
    private readonly ?string $label;
    private readonly float $timeout;
    /** Whether PHP code has credentials for the server. */
    private readonly bool $hasCredentials;

    /** @param array<array-key, mixed> $options */
    public function __construct(
        private readonly string $url,
        int|float $timeout,
        #[\SensitiveParameter]
        ?string $apiKey,
        #[\SensitiveParameter]
        array $options,
    ) {
        Argument::texts([1 => $url, 3 => $apiKey]);
        Json::encode($options);
        foreach (array_keys($options) as $name) {
            if (!in_array($name, self::OPTIONS, true)) {
                throw Failure::invalidInput("Unknown option '$name'");
            }
        }
        if ($apiKey !== null && isset($options['authentication'])) {
            throw Failure::invalidInput("Give either an API key or the option 'authentication'");
        }
        $parts = parse_url($url);
        if (!in_array(strtolower($parts['scheme'] ?? ''), ['http', 'https'], true) || ($parts['host'] ?? '') === '') {
            throw Failure::invalidInput("Invalid MCP server option 'url': use http:// or https://");
        }
        $label = $options['label'] ?? null;
        if ($label !== null && !is_string($label)) {
            throw Failure::invalidInput("Invalid MCP server option 'label': it must be a string");
        }
        $this->label = $label;
        $this->timeout = Argument::seconds('timeout', $timeout);
        $this->hasCredentials = $apiKey !== null || isset($options['authentication']) || ($options['headers'] ?? []) !== [];
    }

    /** @param MCPSSEClient|array<array-key, mixed> $server */
    public static function of(#[\SensitiveParameter] MCPSSEClient|array $server): self
    {
        $client = $server instanceof MCPSSEClient ? $server : self::client($server);
        if ($client === null) {
            throw Failure::invalidInput("The server entry has no 'server_url'");
        }
        return \Closure::bind(static fn (MCPSSEClient $client): McpServer => $client->server, null, MCPSSEClient::class)($client);
    }

    /**
     * The client of a server entry; null without a URL.
     *
     * @param array<array-key, mixed> $entry
     *
     * @throws \Pillion\Exception\InvalidInputException
     */
    public static function client(#[\SensitiveParameter] array $entry): ?MCPSSEClient
    {
        Json::encode($entry);
        $text = static function (string $key) use ($entry): ?string {
            $text = is_string($entry[$key] ?? null) ? trim($entry[$key]) : '';
            return $text === '' ? null : $text;
        };
        $url = $text('server_url');
        if ($url === null) {
            return null;
        }
        $timeout = $entry['timeout'] ?? 30;
        if (!is_int($timeout) && !is_float($timeout)) {
            throw Failure::invalidInput("The server's 'timeout' must be a number of seconds");
        }
        $options = $entry['options'] ?? [];
        if (!is_array($options)) {
            throw Failure::invalidInput('The options must be an array with names as keys');
        }
        $label = $text('server_label');
        return new MCPSSEClient($url, $timeout, $text('api_key'), ($label === null ? [] : ['label' => $label]) + $options);
    }

    /** The URL without what may be secret. */
    public function shownUrl(): string
    {
        return self::shown($this->url);
    }

    /**
     * The tools in the form of `tools/list`.
     *
     * @return list<array<string, mixed>>
     *
     * @throws PillionException
     */
    public function listed(): array
    {
        return array_map(static fn (array $tool): array => [
            'name' => $tool['name'],
            'description' => $tool['description'],
            'inputSchema' => Json::arrays($tool['schema']),
        ], $this->offered());
    }

    /**
     * The tools for a registry.
     *
     * @return list<MCPServerTool>
     *
     * @throws PillionException
     */
    public function tools(string $prefix): array
    {
        Argument::texts([2 => $prefix]);
        $make = \Closure::bind(
            static fn (ToolDefinition $definition, Origin $origin, string $sidecarName): MCPServerTool => new MCPServerTool($definition, $origin, $sidecarName),
            null,
            MCPServerTool::class,
        );
        return array_map(fn (array $tool): MCPServerTool => $make(
            new ToolDefinition($prefix . $tool['name'], $tool['description'], Json::arrays($tool['schema']), category: 'mcp'),
            new Origin($this->label ?? $tool['label'], $this->shownUrl()),
            $tool['sidecarName'],
        ), $this->offered());
    }

    /**
     * The result of a tool, unchanged: also one with `isError`.
     *
     * @param array<array-key, mixed> $arguments
     *
     * @throws PillionException
     */
    public function call(string $name, array $arguments): mixed
    {
        Argument::texts([1 => $name]);
        $arguments = Json::encodeArguments($arguments);
        if (!isset($this->names[$name])) {
            $this->offered();
        }
        $sidecarName = $this->names[$name] ?? throw Failure::rpc(-32602, "MCP Error (-32602): Unknown tool: $name", 'not_found');
        $answer = $this->api()->execute($sidecarName, $arguments, Context::none());
        $isResult = $answer->success || (is_array($answer->data) && ($answer->data['isError'] ?? false) === true);
        if ($isResult) {
            return $answer->data;
        }
        throw $this->failure($answer);
    }

    /** Whether the sidecar has the server, and has heard from it. */
    public function isAvailable(): bool
    {
        try {
            $this->offered();
            return true;
        } catch (PillionException) {
            return false;
        }
    }

    private function failure(Answer $answer): PillionException
    {
        $message = $answer->error ?? '';
        $code = $answer->errorCode ?? 'internal_error';
        return match (true) {
            preg_match('/^MCP Error \(?(-?\d+)\)?: /', $message, $found) === 1 => Failure::rpc((int) $found[1], $message, $code),
            $code === 'unavailable' && preg_match('/HTTP (\d{3})/', $message, $found) === 1 => Failure::transport($message, (int) $found[1]),
            $code === 'unavailable', $code === 'internal_error' => Failure::transport($message),
            default => $answer->failure(),
        };
    }

    /**
     * What the sidecar offers of the server.
     *
     * @return list<array{name: string, sidecarName: string, description: string, schema: \stdClass, label: string}>
     *
     * @throws PillionException
     */
    private function offered(): array
    {
        if ($this->hasCredentials) {
            throw Failure::unavailable(
                "The sidecar speaks to {$this->shownUrl()} with the credentials of its own configuration, never with those of PHP code:"
                . ' leave them out here, or install the extension ext-pillion',
            );
        }
        $tools = (new SidecarServers($this->api()))->offer($this->label, $this->shownUrl());
        $this->names = array_column($tools, 'sidecarName', 'name');
        return $tools;
    }

    private function api(): SidecarApi
    {
        return new SidecarApi(SocketPath::default(), $this->timeout);
    }

    private static function shown(string $url): string
    {
        $parts = parse_url($url);
        $port = isset($parts['port']) ? ":{$parts['port']}" : '';
        return strtolower($parts['scheme']) . '://' . strtolower($parts['host']) . $port . ($parts['path'] ?? '/');
    }
}
