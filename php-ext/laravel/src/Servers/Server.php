<?php

declare(strict_types=1);

namespace Pillion\Laravel\Servers;

use Illuminate\Container\Container;
use JsonSerializable;
use Pillion\Laravel\Execution\Calls;
use Pillion\Laravel\Hooks;
use Pillion\Laravel\Identity;
use Pillion\Laravel\Testing\FakeServerCalls;
use Pillion\Laravel\Testing\FakeToolStream;
use Pillion\Laravel\Testing\PillionFake;
use Pillion\Laravel\Testing\StrayToolCallException;
use Pillion\Laravel\Workshop;
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
     * Setup methods that do not reach a server, and therefore do nothing if calls are forbidden in a test.
     */
    private const QUIET = [
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
     * Returns the client, which bypasses the fakes of a test.
     *
     * @throws StrayToolCallException in a test that forbids calls to servers
     */
    public function client(): McpClient
    {
        return $this->reach('client');
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
        $call = new ToolCall(Calls::newId(), $name, $arguments);
        return $this->faked()?->call($this->config(), $call)
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
        $calls = Calls::all($calls);
        $results = [];
        $left = [];
        foreach ($calls as $place => $call) {
            $results[$place] = $this->faked()?->call($this->config(), $call);
            if ($results[$place] === null) {
                $left[$place] = $call;
            }
        }
        if ($left !== []) {
            $real = $this->client()->callTools(array_values($left), $options);
            $results = array_replace($results, array_combine(array_keys($left), $real));
        }
        return array_values($results);
    }

    /**
     * Starts a tool call and returns a stream of its progress.
     *
     * @param array<string, mixed> $arguments
     * @param array<string, mixed> $options   like those of {@see callTool()}
     *
     * @return ToolStream|FakeToolStream FakeToolStream, which has the same methods, for a faked tool
     */
    public function streamTool(string $name, array $arguments = [], array $options = []): ToolStream|FakeToolStream
    {
        $call = new ToolCall(Calls::newId(), $name, $arguments);
        $result = $this->faked()?->call($this->config(), $call);
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
            $call = new ToolCall(Calls::newId(), $params['name'], (array) ($params['arguments'] ?? []));
            $result = $this->faked()?->call($this->config(), $call);
            if ($result !== null) {
                return FakeServerCalls::onTheWire($result);
            }
        }
        return $this->reach('request')->request($method, $params);
    }

    /** Returns whether the server answers now. */
    public function isAvailable(): bool
    {
        return self::fake() !== null ? true : $this->client()->isAvailable();
    }

    /** @param array<int|string, mixed> $arguments */
    public function __call(string $method, array $arguments): mixed
    {
        if (in_array($method, self::QUIET, true) && self::fake()?->allowsStrayCalls() === false) {
            return $this;
        }
        $client = $this->reach($method);
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

    private function reach(string $method): McpClient
    {
        self::fake()?->refuseServer($this->name, $method);
        return Workshop::current()->clients(new Identity($this->user, $this->tenant))->client($this->config());
    }

    private function config(): ServerConfig
    {
        return Container::getInstance()->make(ServerDirectory::class)->get($this->name);
    }

    private function faked(): ?FakeServerCalls
    {
        return self::fake()?->server();
    }

    private static function fake(): ?PillionFake
    {
        return Container::getInstance()->make(Hooks::class)->fake;
    }
}
