<?php

declare(strict_types=1);

namespace Pillion\Laravel\Testing;

use Pillion\CallableTool;
use Pillion\Laravel\Execution\CallReader;
use Pillion\Laravel\Servers\ServerConfig;
use Pillion\Laravel\Servers\ServerDirectory;
use Pillion\MCPToolInterface;
use Pillion\ToolCall;
use Pillion\ToolDefinition;
use Pillion\ToolInterface;
use Pillion\ToolRegistry;
use Pillion\ToolResult;
use Throwable;

/**
 * Replaces the execution of tools in a test. All checks stay active: arguments are validated
 * against the tool's definition, and models, approvals and limits apply as usual.
 */
final class PillionFake
{
    use CallAssertions;

    /** @var list<RecordedCall> */
    private array $recordedCalls = [];

    private bool $preventsStrayCalls = false;

    /** @var ?list<string|array<string, array<string, mixed>>|Throwable> the responses of the fake model; null if no model is faked */
    private ?array $modelAnswers = null;

    /**
     * @param ?array<string, mixed> $fakes fakes by tool name (for a server's tool, the prefixed name or the name on
     *        the server), or by pattern with `*`: a result, a
     *        {@see ToolResult}, an exception, a {@see ResultSequence}, or a callable
     *        `fn(array $arguments, RecordedCall $call): mixed` that returns any of these; null fakes every tool
     */
    public function __construct(private readonly ServerDirectory $servers, private ?array $fakes)
    {
    }

    /** @param ?array<string, mixed> $fakes additional fakes */
    public function add(?array $fakes): self
    {
        $this->fakes = $fakes === null || $this->fakes === null ? null : $fakes + $this->fakes;
        return $this;
    }

    /**
     * Forbids calls of tools that have no fake, and all other operations that would contact a
     * server: they throw an exception. `preventStrayCalls(false)` permits them again.
     */
    public function preventStrayCalls(bool $prevent = true): self
    {
        $this->preventsStrayCalls = $prevent;
        return $this;
    }

    /**
     * Sets the responses of the fake model of `Pillion::chat()`, in order. Each is a text, the tool calls
     * that the model makes (`['order_status' => ['order' => 7]]`), or an exception to throw.
     *
     * @param string|array<string, array<string, mixed>>|Throwable ...$answers
     */
    public function fakeModel(string|array|Throwable ...$answers): self
    {
        $this->modelAnswers = array_values($answers);
        return $this;
    }

    /** @internal Returns whether a model is faked. */
    public function hasModelAnswers(): bool
    {
        return $this->modelAnswers !== null;
    }

    /**
     * @internal
     *
     * @return array<string, mixed>|Throwable the next response of the model in OpenAI's format, or its failure
     */
    public function nextModelAnswer(): array|Throwable
    {
        $answer = array_shift($this->modelAnswers) ?? throw new \OutOfBoundsException('The fake model has no more answers: add one with fakeModel()');
        if ($answer instanceof Throwable) {
            return $answer;
        }
        $message = ['role' => 'assistant', 'content' => is_string($answer) ? $answer : null];
        if (is_array($answer)) {
            $message['tool_calls'] = array_map(static fn (string $tool, array $arguments): array => [
                'id' => CallReader::generateId(),
                'type' => 'function',
                'function' => ['name' => $tool, 'arguments' => json_encode((object) $arguments, JSON_THROW_ON_ERROR)],
            ], array_keys($answer), $answer);
        }
        return ['choices' => [['message' => $message]]];
    }

    /** Returns whether calls of tools that have no fake are executed. */
    public function allowsStrayCalls(): bool
    {
        return $this->fakes !== null && !$this->preventsStrayCalls;
    }

    public function hasFakeFor(ToolNames|string $tool): bool
    {
        return $this->fakes === null || $this->findFakeKey(is_string($tool) ? $this->namesOf($tool) : $tool) !== null;
    }

    /** @internal Returns the names of a tool, given as an object or by its name in the registry. */
    public function namesOf(ToolInterface|string $tool): ToolNames
    {
        if (is_string($tool)) {
            [$name, $server] = [$tool, $this->findServer($tool)];
        } else {
            $name = $tool->getName();
            $label = $tool instanceof MCPToolInterface ? $tool->getMCPServerConfig()['server_label'] ?? null : null;
            $server = is_string($label) ? $this->servers->all()[$label] ?? null : null;
        }
        return new ToolNames($name, $server === null ? null : self::nameOnServer($server, $name));
    }

    public function server(): FakeServerCalls
    {
        return new FakeServerCalls($this);
    }

    /**
     * @param ?string $tool a name, prefixed or as on the server, or a pattern with `*`; null for all calls
     *
     * @return list<RecordedCall>
     */
    public function recorded(?string $tool = null): array
    {
        return array_values(array_filter(
            $this->recordedCalls,
            fn (RecordedCall $call) => $tool === null || $call->names()->matches($tool),
        ));
    }

    /** @internal Replaces the tools of a registry with fakes. */
    public function wrapAll(ToolRegistry $registry): void
    {
        foreach ($registry->getAll() as $tool) {
            if (!$tool instanceof FakeTool) {
                $registry->register($this->wrap($tool), replace: true);
            }
        }
    }

    /**
     * @internal Replaces the tools of a registry with fakes, and adds fakes for tools that the registry
     *     lacks.
     */
    public function install(ToolRegistry $registry): void
    {
        $this->wrapAll($registry);
        foreach (array_keys($this->fakes ?? []) as $name) {
            foreach (str_contains($name, '*') ? [] : $this->findRegistryNames($name) as $registeredName) {
                if (!$registry->has($registeredName)) {
                    $registry->register($this->wrap($this->createPlaceholder($registeredName)));
                }
            }
        }
    }

    /**
     * @internal Wraps the tool of a call that is about to run in a fake, or adds a fake for a missing tool.
     *     Throws if the tool has no fake and stray calls are forbidden.
     */
    public function fakeIfNeeded(ToolCall $call, ToolRegistry $registry): void
    {
        $tool = $registry->get($call->name);
        $names = $this->namesOf($tool ?? $call->name);
        if (!$this->hasFakeFor($names) && !$this->allowsStrayCalls()) {
            throw StrayToolCallException::forTool($names->name);
        }
        if ($tool === null && $this->hasFakeFor($names)) {
            $registry->register($this->wrap($this->createPlaceholder($names->name)));
        } elseif ($tool !== null && !$tool instanceof FakeTool) {
            $registry->register($this->wrap($tool), replace: true);
        }
    }

    /** @internal */
    public function recordStrayCall(ToolNames $names, ToolCall $call, ?string $server = null): void
    {
        if (!$this->allowsStrayCalls()) {
            throw StrayToolCallException::forTool($names->name);
        }
        $this->record($names, $call, $server);
    }

    /** @internal Throws if stray calls are forbidden. */
    public function assertAllowed(string $target): void
    {
        if (!$this->allowsStrayCalls()) {
            throw StrayToolCallException::forTarget($target);
        }
    }

    /** @internal Throws if calls to real servers are forbidden. */
    public function assertServerAllowed(string $server, string $method): void
    {
        if (!$this->allowsStrayCalls()) {
            throw StrayToolCallException::forServer($server, $method);
        }
    }

    /** @internal */
    public function resultFor(ToolNames $names, ToolCall $call, ?string $server = null): ToolResult
    {
        $recordedCall = $this->record($names, $call, $server);
        $pattern = $this->findFakeKey($names);
        $outcome = $pattern === null ? null : ($this->fakes[$pattern] ?? null);
        while ($outcome instanceof \Closure || $outcome instanceof ResultSequence) {
            $outcome = $outcome instanceof ResultSequence ? $outcome->next() : $outcome($recordedCall->arguments, $recordedCall);
        }
        if ($outcome instanceof ToolResult) {
            return new ToolResult(...['toolCallId' => $call->id, 'toolName' => $call->name] + get_object_vars($outcome));
        }
        if ($outcome instanceof Throwable) {
            if ($server !== null) {
                throw $outcome;
            }
            $errorCode = $outcome->errorCode ?? 'internal_error';
            return new ToolResult($call->id, $call->name, null, false, $outcome->getMessage(), $errorCode);
        }
        return new ToolResult($call->id, $call->name, $outcome);
    }

    private function record(ToolNames $names, ToolCall $call, ?string $server): RecordedCall
    {
        $arguments = is_string($call->arguments) ? json_decode($call->arguments, true) : $call->arguments;
        return $this->recordedCalls[] = new RecordedCall(
            $names->name,
            is_array($arguments) ? $arguments : [],
            $call->id,
            $server,
            $names->nameOnServer,
        );
    }

    /**
     * Returns the key under which the test defined the fake for a tool. A key that equals a name of
     * the tool takes precedence over a pattern with `*`.
     */
    private function findFakeKey(ToolNames $names): ?string
    {
        foreach ($names->all() as $name) {
            if (array_key_exists($name, $this->fakes ?? [])) {
                return $name;
            }
        }
        foreach (array_keys($this->fakes ?? []) as $pattern) {
            if ($names->matches((string) $pattern)) {
                return (string) $pattern;
            }
        }
        return null;
    }

    /**
     * Returns the registry names of the tool that a fake is defined for. If the fake uses a tool's
     * name on the server, adds the prefix of each server that lists the name in `only`.
     *
     * @return non-empty-list<string>
     */
    private function findRegistryNames(string $name): array
    {
        $offeringServers = array_filter(
            $this->servers->all(),
            fn (ServerConfig $server) => $server->class === null && $server->register && in_array($name, $server->only, true),
        );
        return $offeringServers === [] ? [$name] : array_values(array_map(fn (ServerConfig $server) => $server->prefix . $name, $offeringServers));
    }

    /** Returns the name of a tool on its server; null if the name does not have the server's prefix. */
    private static function nameOnServer(ServerConfig $server, string $name): ?string
    {
        $isPrefixed = $server->class === null && $name !== $server->prefix && str_starts_with($name, $server->prefix);
        return $isPrefixed ? substr($name, strlen($server->prefix)) : null;
    }

    /**
     * Returns the configured server whose prefix begins the name. If several prefixes match, the
     * server with the longest prefix is returned.
     */
    private function findServer(string $name): ?ServerConfig
    {
        $matchingServer = null;
        foreach ($this->servers->all() as $server) {
            $isLonger = strlen($server->prefix) > strlen($matchingServer->prefix ?? '');
            if ($isLonger && self::nameOnServer($server, $name) !== null) {
                $matchingServer = $server;
            }
        }
        return $matchingServer;
    }

    private function wrap(ToolInterface $tool): FakeTool
    {
        return $tool instanceof MCPToolInterface ? new FakeMcpTool($this, $tool) : new FakeTool($this, $tool);
    }

    /**
     * Creates a tool for a fake whose name no registry contains. If the name begins with a server's
     * prefix, the tool counts as a tool of that server.
     */
    private function createPlaceholder(string $name): ToolInterface
    {
        $server = $this->findServer($name);
        if ($server !== null) {
            return new FakeServerTool($name, $server->name);
        }
        return new CallableTool(
            new ToolDefinition($name, 'A fake', ['type' => 'object', 'properties' => []]),
            static fn () => throw new \LogicException("Tool '$name' is faked and has no implementation"),
        );
    }
}
