<?php

declare(strict_types=1);

namespace Pillion\Laravel\Servers;

use Illuminate\Container\Container;
use JsonSerializable;
use Pillion\Laravel\Execution\CallReader;
use Pillion\Laravel\Hooks;
use Pillion\Laravel\Identity;
use Pillion\Laravel\RequestServices;
use Pillion\Laravel\Testing\FakeServerCalls;
use Pillion\Laravel\Testing\FakeToolStream;
use Pillion\Laravel\Testing\PillionFake;
use Pillion\Laravel\Testing\StrayToolCallException;
use Pillion\McpClient;
use Pillion\ToolCall;
use Pillion\ToolResult;
use Pillion\ToolStream;

/**
 * A configured MCP server, identified by its name. A queued job serializes only the name; the worker that
 * runs the job reads the URL and the credentials from its own configuration.
 *
 * All other methods are forwarded to {@see McpClient}.
 *
 * @mixin McpClient
 */
final class Server implements JsonSerializable
{
    /**
     * The setup methods of a client. They send nothing to the server; in a test that forbids calls
     * to servers, they do nothing instead of throwing an exception.
     */
    private const SETUP_METHODS = [
        'onSampling', 'onElicitation', 'onNotification', 'onAuthorization', 'setRoots', 'setTokenStore', 'setLogger',
        'setEventDispatcher', 'setCache', 'disconnect',
    ];

    public function __construct(
        public readonly string $name,
        public readonly ?string $user = null,
        public readonly ?string $tenant = null,
    ) {
    }

    /**
     * Returns the client of the server. Calls through the client bypass the fakes of a test.
     *
     * @throws StrayToolCallException in a test that forbids calls to servers
     */
    public function client(): McpClient
    {
        return $this->connect('client');
    }

    /**
     * Calls a tool by its name on the server. A failed tool becomes a failed result; an unreachable server
     * throws an exception.
     *
     * @param array<string, mixed> $arguments
     * @param array<string, mixed> $options   `timeout`, `on_progress`, `cancellation`, `meta`
     *
     * @throws \Pillion\Exception\PillionException
     */
    public function callTool(string $name, array $arguments = [], array $options = []): ToolResult
    {
        $call = new ToolCall(CallReader::generateId(), $name, $arguments);
        return $this->fakeCalls()?->call($this->config(), $call)
            ?? $this->client()->callTool($name, $arguments, $options + ['id' => $call->id]);
    }

    /**
     * Calls tools concurrently. A failed call does not affect other calls.
     *
     * @param list<ToolCall|array<string, mixed>> $calls
     * @param array<string, mixed>                $options
     *
     * @return list<ToolResult> in the order of the calls
     */
    public function callTools(array $calls, array $options = []): array
    {
        $results = [];
        $unfakedCalls = [];
        foreach (CallReader::readAll($calls) as $index => $call) {
            $results[$index] = $this->fakeCalls()?->call($this->config(), $call);
            if ($results[$index] === null) {
                $unfakedCalls[$index] = $call;
            }
        }
        if ($unfakedCalls !== []) {
            $serverResults = $this->client()->callTools(array_values($unfakedCalls), $options);
            $results = array_replace($results, array_combine(array_keys($unfakedCalls), $serverResults));
        }
        return array_values($results);
    }

    /**
     * Starts a tool call and returns a stream of its progress.
     *
     * @param array<string, mixed> $arguments
     * @param array<string, mixed> $options   like those of {@see callTool()}
     *
     * @return ToolStream|FakeToolStream a FakeToolStream, which has the methods of ToolStream, for a faked tool
     */
    public function streamTool(string $name, array $arguments = [], array $options = []): ToolStream|FakeToolStream
    {
        $call = new ToolCall(CallReader::generateId(), $name, $arguments);
        $result = $this->fakeCalls()?->call($this->config(), $call);
        return $result === null
            ? $this->client()->streamTool($name, $arguments, $options + ['id' => $call->id])
            : new FakeToolStream($result);
    }

    /**
     * Sends an MCP request and returns its result unchanged.
     *
     * @param array<string, mixed> $params
     */
    public function request(string $method, array $params = []): mixed
    {
        if ($method === 'tools/call' && is_string($params['name'] ?? null)) {
            $call = new ToolCall(CallReader::generateId(), $params['name'], (array) ($params['arguments'] ?? []));
            $result = $this->fakeCalls()?->call($this->config(), $call);
            if ($result !== null) {
                return FakeServerCalls::toMcpResult($result);
            }
        }
        return $this->connect('request')->request($method, $params);
    }

    /** Returns whether the server responds to a request now. */
    public function isAvailable(): bool
    {
        return self::fake() !== null ? true : $this->client()->isAvailable();
    }

    /** @param array<int|string, mixed> $arguments */
    public function __call(string $method, array $arguments): mixed
    {
        if (in_array($method, self::SETUP_METHODS, true) && self::fake()?->allowsStrayCalls() === false) {
            return $this;
        }
        $client = $this->connect($method);
        $result = $client->{$method}(...$arguments);
        return $result === $client ? $this : $result;
    }

    /** @return array{name: string, user: ?string, tenant: ?string} */
    public function __serialize(): array
    {
        return $this->jsonSerialize();
    }

    /** @param array{name: string, user: ?string, tenant: ?string} $data */
    public function __unserialize(array $data): void
    {
        $this->name = $data['name'];
        $this->user = $data['user'];
        $this->tenant = $data['tenant'];
    }

    /** @return array{name: string, user: ?string, tenant: ?string} */
    public function jsonSerialize(): array
    {
        return ['name' => $this->name, 'user' => $this->user, 'tenant' => $this->tenant];
    }

    private function connect(string $method): McpClient
    {
        self::fake()?->assertServerAllowed($this->name, $method);
        return RequestServices::current()->clients(new Identity($this->user, $this->tenant))->client($this->config());
    }

    private function config(): ServerConfig
    {
        return Container::getInstance()->make(ServerDirectory::class)->get($this->name);
    }

    private function fakeCalls(): ?FakeServerCalls
    {
        return self::fake()?->server();
    }

    private static function fake(): ?PillionFake
    {
        return Container::getInstance()->make(Hooks::class)->fake;
    }
}
