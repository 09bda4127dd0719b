<?php

declare(strict_types=1);

namespace Pillion\Laravel\Servers;

use Illuminate\Container\Container;
use JsonSerializable;
use Pillion\Laravel\Identity;
use Pillion\Laravel\PillionManager;
use Pillion\Laravel\Testing\FakeServerCalls;
use Pillion\Laravel\Testing\StrayToolCallException;
use Pillion\McpClient;
use Pillion\ToolCall;
use Pillion\ToolResult;
use SensitiveParameterValue;

/**
 * A configured MCP server. It is known by its name: in a queued job it is serialised as that, and
 * the worker that runs the job takes URL and credentials from its own configuration.
 *
 * Methods that are not here are those of {@see McpClient}.
 *
 * @mixin McpClient
 */
final class Server implements JsonSerializable
{
    /** What an application sets up before its calls, which may be faked: nothing of it reaches a server. */
    private const QUIET = [
        'onSampling', 'onElicitation', 'onNotification', 'onAuthorization', 'setRoots', 'setTokenStore', 'setLogger',
        'setEventDispatcher', 'setCache', 'disconnect',
    ];

    /** The manager leads to the configuration, which a dump must not show. */
    private ?SensitiveParameterValue $pillion;

    public function __construct(
        public readonly string $name,
        public readonly ?string $user = null,
        public readonly ?string $tenant = null,
        ?PillionManager $pillion = null,
    ) {
        $this->pillion = $pillion === null ? null : new SensitiveParameterValue($pillion);
    }

    /** @throws StrayToolCallException in a test in which no call may reach a server */
    public function client(): McpClient
    {
        return $this->reach('client');
    }

    /**
     * Runs a tool, by its name on the server. A tool that fails is a failed result; a server that
     * cannot be asked throws.
     *
     * @param array<string, mixed> $arguments
     * @param array<string, mixed> $options   `timeout`, `on_progress`, `cancellation`, `meta`
     *
     * @throws \Pillion\Exception\PillionException
     */
    public function callTool(string $name, array $arguments = [], array $options = []): ToolResult
    {
        $call = new ToolCall(PillionManager::newCallId(), $name, $arguments);
        return $this->faked()?->call($this->config(), $call)
            ?? $this->client()->callTool($name, $arguments, $options + ['id' => $call->id]);
    }

    /**
     * Runs tools side by side. No failure touches another call.
     *
     * @param list<ToolCall|array<string, mixed>> $calls
     * @param array<string, mixed>                $options
     *
     * @return list<ToolResult> in the order of the calls
     */
    public function callTools(array $calls, array $options = []): array
    {
        $calls = array_map([PillionManager::class, 'toCall'], array_values($calls));
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

    /** Whether the server answers now. */
    public function isAvailable(): bool
    {
        return $this->pillion()->faking() ? true : $this->client()->isAvailable();
    }

    /** @param array<int|string, mixed> $arguments */
    public function __call(string $method, array $arguments): mixed
    {
        if (in_array($method, self::QUIET, true) && $this->pillion()->faking()?->allowsStrayCalls() === false) {
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
        $this->pillion = null;
    }

    /** @return array{name: string, user: ?string, tenant: ?string} */
    public function jsonSerialize(): array
    {
        return ['name' => $this->name, 'user' => $this->user, 'tenant' => $this->tenant];
    }

    /** @return array<string, ?string> */
    public function __debugInfo(): array
    {
        return $this->jsonSerialize();
    }

    private function reach(string $method): McpClient
    {
        $this->pillion()->faking()?->refuseServer($this->name, $method);
        $identity = new Identity($this->user, $this->tenant);
        return $this->pillion()->clients($identity)->client($this->config());
    }

    private function config(): ServerConfig
    {
        return $this->pillion()->directory()->get($this->name);
    }

    private function faked(): ?FakeServerCalls
    {
        return $this->pillion()->faking()?->server();
    }

    private function pillion(): PillionManager
    {
        $this->pillion ??= new SensitiveParameterValue(
            Container::getInstance()->make(PillionManager::class)->forUser($this->user)->forTenant($this->tenant),
        );
        return $this->pillion->getValue();
    }
}
