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
 * Replaces the execution of tools. Everything else stays active: arguments are validated against the tool's
 * definition, and models, approvals and limits apply as usual.
 */
final class PillionFake
{
    use CallAssertions;

    /** @var list<RecordedCall> */
    private array $recorded = [];

    private bool $preventsStrayCalls = false;

    /** @var ?list<string|array<string, array<string, mixed>>|Throwable> the answers of the fake model; null if no model is faked */
    private ?array $answers = null;

    /**
     * @param ?array<string, mixed> $fakes fakes by tool name (for a server's tool, the prefixed name or the name on
     *        the server), or by pattern with `*`: a result, a
     *        {@see ToolResult}, an exception, a {@see ResultSequence}, or a callable
     *        `fn(array $arguments, RecordedCall $call): mixed` that returns one; null fakes every tool
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
     * Makes calls of tools without a fake throw an exception, as well as everything else that
     * would reach a server.
     */
    public function preventStrayCalls(bool $prevent = true): self
    {
        $this->preventsStrayCalls = $prevent;
        return $this;
    }

    /**
     * Sets the answers of the model of `Pillion::chat()`, in order: a text, the calls that the model makes
     * (`['order_status' => ['order' => 7]]`), or an exception.
     *
     * @param string|array<string, array<string, mixed>>|Throwable ...$answers
     */
    public function fakeModel(string|array|Throwable ...$answers): self
    {
        $this->answers = array_values($answers);
        return $this;
    }

    /** @internal Returns whether a model is faked. */
    public function hasModelAnswers(): bool
    {
        return $this->answers !== null;
    }

    /**
     * @internal
     *
     * @return array<string, mixed>|Throwable the next response of the model in OpenAI's format, or its failure
     */
    public function nextModelAnswer(): array|Throwable
    {
        $answer = array_shift($this->answers) ?? throw new \OutOfBoundsException('The fake model has no more answers: add one with fakeModel()');
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

    /** Returns whether tools without a fake run. */
    public function allowsStrayCalls(): bool
    {
        return $this->fakes !== null && !$this->preventsStrayCalls;
    }

    public function hasFakeFor(ToolNames|string $tool): bool
    {
        return $this->fakes === null || $this->patternFor(is_string($tool) ? $this->namesOf($tool) : $tool) !== null;
    }

    /** @internal Returns the names of a tool, or of a tool that no registry knows. */
    public function namesOf(ToolInterface|string $tool): ToolNames
    {
        if (is_string($tool)) {
            [$name, $server] = [$tool, $this->serverOf($tool)];
        } else {
            $name = $tool->getName();
            $label = $tool instanceof MCPToolInterface ? $tool->getMCPServerConfig()['server_label'] ?? null : null;
            $server = is_string($label) ? $this->servers->all()[$label] ?? null : null;
        }
        return new ToolNames($name, $server === null ? null : self::nameOn($server, $name));
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
            $this->recorded,
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
            foreach (str_contains($name, '*') ? [] : $this->registeredNames($name) as $registered) {
                if (!$registry->has($registered)) {
                    $registry->register($this->wrap($this->placeholderFor($registered)));
                }
            }
        }
    }

    /** @internal Makes sure that a call that is about to run is faked if necessary. */
    public function fakeIfNeeded(ToolCall $call, ToolRegistry $registry): void
    {
        $tool = $registry->get($call->name);
        $names = $this->namesOf($tool ?? $call->name);
        if (!$this->hasFakeFor($names) && !$this->allowsStrayCalls()) {
            throw StrayToolCallException::of($names->name);
        }
        if ($tool === null && $this->hasFakeFor($names)) {
            $registry->register($this->wrap($this->placeholderFor($names->name)));
        } elseif ($tool !== null && !$tool instanceof FakeTool) {
            $registry->register($this->wrap($tool), replace: true);
        }
    }

    /** @internal */
    public function recordStrayCall(ToolNames $names, ToolCall $call, ?string $server = null): void
    {
        if (!$this->allowsStrayCalls()) {
            throw StrayToolCallException::of($names->name);
        }
        $this->record($names, $call, $server);
    }

    /** @internal Throws if stray calls are forbidden. */
    public function assertAllowed(string $target): void
    {
        if (!$this->allowsStrayCalls()) {
            throw StrayToolCallException::reaching($target);
        }
    }

    /** @internal Throws if calls to real servers are forbidden. */
    public function assertServerAllowed(string $server, string $method): void
    {
        if (!$this->allowsStrayCalls()) {
            throw StrayToolCallException::ofServer($server, $method);
        }
    }

    /** @internal */
    public function resultFor(ToolNames $names, ToolCall $call, ?string $server = null): ToolResult
    {
        $recorded = $this->record($names, $call, $server);
        $pattern = $this->patternFor($names);
        $answer = $pattern === null ? null : ($this->fakes[$pattern] ?? null);
        while ($answer instanceof \Closure || $answer instanceof ResultSequence) {
            $answer = $answer instanceof ResultSequence ? $answer->next() : $answer($recorded->arguments, $recorded);
        }
        if ($answer instanceof ToolResult) {
            return new ToolResult(...['toolCallId' => $call->id, 'toolName' => $call->name] + get_object_vars($answer));
        }
        if ($answer instanceof Throwable) {
            if ($server !== null) {
                throw $answer;
            }
            $code = $answer->errorCode ?? 'internal_error';
            return new ToolResult($call->id, $call->name, null, false, $answer->getMessage(), $code);
        }
        return new ToolResult($call->id, $call->name, $answer);
    }

    private function record(ToolNames $names, ToolCall $call, ?string $server): RecordedCall
    {
        $arguments = is_string($call->arguments) ? json_decode($call->arguments, true) : $call->arguments;
        return $this->recorded[] = new RecordedCall(
            $names->name,
            is_array($arguments) ? $arguments : [],
            $call->id,
            $server,
            $names->nameOnServer,
        );
    }

    /** Returns the key of the fake for a tool. A name is preferred to a pattern. */
    private function patternFor(ToolNames $names): ?string
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
     * Returns the names in the registry of the tool that a fake names. A name on a server gets the
     * prefix of each server that lists the name in `only`.
     *
     * @return non-empty-list<string>
     */
    private function registeredNames(string $name): array
    {
        $offering = array_filter(
            $this->servers->all(),
            fn (ServerConfig $server) => $server->class === null && $server->register && in_array($name, $server->only, true),
        );
        return $offering === [] ? [$name] : array_values(array_map(fn (ServerConfig $server) => $server->prefix . $name, $offering));
    }

    /** Returns the name of a tool on its server; null if the name does not have the server's prefix. */
    private static function nameOn(ServerConfig $server, string $name): ?string
    {
        $isPrefixed = $server->class === null && $name !== $server->prefix && str_starts_with($name, $server->prefix);
        return $isPrefixed ? substr($name, strlen($server->prefix)) : null;
    }

    /**
     * Returns the configured server whose prefix a name has. Of several prefixes, the longest one
     * counts.
     */
    private function serverOf(string $name): ?ServerConfig
    {
        $found = null;
        foreach ($this->servers->all() as $server) {
            $isLonger = strlen($server->prefix) > strlen($found->prefix ?? '');
            if ($isLonger && self::nameOn($server, $name) !== null) {
                $found = $server;
            }
        }
        return $found;
    }

    private function wrap(ToolInterface $tool): FakeTool
    {
        return $tool instanceof MCPToolInterface ? new FakeMcpTool($this, $tool) : new FakeTool($this, $tool);
    }

    /**
     * Returns a tool that no registry knows; a name with a server's prefix counts as a tool of that server.
     */
    private function placeholderFor(string $name): ToolInterface
    {
        $server = $this->serverOf($name);
        if ($server !== null) {
            return new FakeServerTool($name, $server->name);
        }
        return new CallableTool(
            new ToolDefinition($name, 'A fake', ['type' => 'object', 'properties' => []]),
            static fn () => throw new \LogicException('This tool is faked and has no implementation'),
        );
    }
}
