<?php

declare(strict_types=1);

namespace Pillion\Laravel;

use Illuminate\Container\Container;
use Illuminate\Support\Collection;
use Pillion\Exception\InvalidInputException;
use Pillion\Laravel\Approvals\Approvals;
use Pillion\Laravel\Chat\Chat;
use Pillion\Laravel\Chat\Chats;
use Pillion\Laravel\Chat\FakeChat;
use Pillion\Laravel\Execution\Calls;
use Pillion\Laravel\Execution\Executor;
use Pillion\Laravel\Models\Capabilities;
use Pillion\Laravel\Models\ModelDirectory;
use Pillion\Laravel\Models\ModelTools;
use Pillion\Laravel\Servers\Server;
use Pillion\Laravel\Servers\ServerDirectory;
use Pillion\Laravel\Testing\PillionFake;
use Pillion\Laravel\Testing\ResultSequence;
use Pillion\Sidecar;
use Pillion\ToolAwareChat;
use Pillion\ToolCall;
use Pillion\ToolInterface;
use Pillion\ToolRegistry;
use Pillion\ToolResult;
use SensitiveParameter;

/**
 * What the facade `Pillion` speaks to, for whoever calls at the moment; {@see forUser()} and
 * {@see forTenant()} give one for others. It holds nothing but these two: what it works with is that
 * of the request or job that runs, so it may be kept, dumped and put into a queued job.
 *
 * @mixin PillionFake
 */
class PillionManager
{
    /**
     * @param ?string $user   null for whoever calls at the moment, '' for nobody
     * @param ?string $tenant likewise
     */
    final public function __construct(private readonly ?string $user = null, private readonly ?string $tenant = null)
    {
    }

    /**
     * All tools: the application's, those of the MCP servers, those of the sidecar.
     *
     * @return Collection<string, ToolInterface>
     */
    public function tools(): Collection
    {
        return new Collection($this->registry()->getAll());
    }

    /**
     * A server, for the user and tenant of this moment: it stays theirs.
     *
     * @throws \Pillion\Exception\NotFoundException when it is not configured
     */
    public function server(string $name): Server
    {
        self::directory()->get($name);
        $identity = $this->identity();
        return new Server($name, $identity->user, $identity->tenant);
    }

    /** @return array<string, Server> */
    public function servers(): array
    {
        $names = self::directory()->names();
        return array_combine($names, array_map(fn (string $name) => $this->server($name), $names));
    }

    /**
     * Runs a tool. One that fails is a failed result.
     *
     * @param array<string, mixed> $arguments
     * @param array<string, mixed> $context   `user`, `channel`, and what else tools should know
     */
    public function call(string $tool, array $arguments = [], array $context = []): ToolResult
    {
        return $this->executor()->execute(new ToolCall(Calls::newId(), $tool, $arguments), $context);
    }

    /**
     * Runs tools side by side. No failure touches another call.
     *
     * @param list<ToolCall|array<string, mixed>> $calls  `['name' => ..., 'arguments' => [...]]`, or as a model gave it
     * @param array<string, mixed>                $context
     *
     * @return list<ToolResult> in the order of the calls
     */
    public function callTools(array $calls, array $context = []): array
    {
        return $this->executor()->executeParallel($calls, $context);
    }

    /**
     * The same as {@see callTools()}.
     *
     * @param list<ToolCall|array<string, mixed>> $calls
     * @param array<string, mixed>                $context
     *
     * @return list<ToolResult>
     */
    public function parallel(array $calls, array $context = []): array
    {
        return $this->callTools($calls, $context);
    }

    /**
     * The tools of the user and tenant of this moment: those of the application
     * (`app(ToolRegistry::class)`), and, unless they are not wanted, those that the MCP servers list.
     */
    public function registry(bool $withServers = true): ToolRegistry
    {
        return Workshop::current()->registry($this->identity(), $withServers);
    }

    /** @return array<string, string> the servers, services and classes whose tools are not in the registry, and why */
    public function leftOut(): array
    {
        return Workshop::current()->leftOut($this->identity());
    }

    /**
     * An executor for the user and tenant of this moment. A call whose context names another `user` is
     * run with that user's credentials.
     *
     * @param array<string, mixed> $options of {@see \Pillion\ToolExecutor}, over those of the configuration
     */
    public function executor(array $options = []): Executor
    {
        return Workshop::current()->executor($this->identity(), true, $options);
    }

    /**
     * The tools that a model sees.
     *
     * @param string|array<string, mixed>|object $model its name, or what says itself what it can do
     */
    public function forModel(#[SensitiveParameter] string|array|object $model): ModelTools
    {
        $capabilities = self::make(ModelDirectory::class)->capabilities($model);
        // Nobody is asked for tools that the model would not be shown.
        $withServers = Capabilities::wantsServers($capabilities);
        $identity = $this->identity();
        return new ModelTools(
            $capabilities,
            Workshop::current()->registry($identity, $withServers),
            Workshop::current()->executor($identity, $withServers),
            (int) self::config('limits.max_rounds', 5),
            (int) self::config('limits.max_calls', 5),
        );
    }

    /**
     * Chats with a model that uses tools until it answers in words, for the user and tenant of this moment.
     *
     * @param string|array<string, mixed>|null $model   one of `pillion.models` or of the lists, or an entry
     *        like theirs; null for `pillion.chat.model`. In the sidecar a name of one of its own
     * @param array<string, mixed>             $options of {@see ToolAwareChat}, over those of the configuration
     *
     * @throws \Pillion\Exception\InvalidInputException when there is no such model
     */
    public function chat(#[SensitiveParameter] string|array|null $model = null, array $options = []): Chat
    {
        $chats = self::make(Chats::class);
        $identity = $this->identity();
        $name = $model ?? $chats->defaultModel();
        if ($chats->inSidecar()) {
            return new Chat(function () use ($chats, $name, $options): ToolAwareChat {
                self::hooks()->fake?->refuse('the sidecar');
                return new ToolAwareChat(Workshop::current()->sidecar(), $name, $chats->options($options));
            }, $identity->user);
        }
        if ($name === null) {
            throw new InvalidInputException('Pillion::chat() needs the name of a model, or pillion.chat.model');
        }
        $entry = $chats->model($name);
        return new Chat(function () use ($chats, $identity, $entry, $options): ToolAwareChat|FakeChat {
            $fake = self::hooks()->fake;
            $options = $chats->options($options);
            if ($fake?->isModel()) {
                $tools = (new self($identity->user ?? '', $identity->tenant ?? ''))->forModel($entry);
                $model = (string) ($entry['model'] ?? $entry['id'] ?? '');
                return new FakeChat($fake, $tools, $model, $options['max_tool_rounds'] ?? 5, $options['max_tool_calls'] ?? 5);
            }
            $fake?->refuse('a language model');
            $executor = Workshop::current()->executor($identity, Capabilities::wantsServers($entry));
            return new ToolAwareChat($executor, $entry, $options);
        }, $identity->user);
    }

    /** @param mixed $user a model or its key; null for nobody */
    public function forUser(mixed $user): static
    {
        return new static(Hooks::key($user) ?? '', $this->tenant);
    }

    /** @param mixed $tenant a model or its key; null for none */
    public function forTenant(mixed $tenant): static
    {
        return new static($this->user, Hooks::key($tenant) ?? '');
    }

    /** @throws Testing\StrayToolCallException in a test in which no call may reach it */
    public function sidecar(): Sidecar
    {
        self::hooks()->fake?->refuse('the sidecar');
        return Workshop::current()->sidecar();
    }

    /** Those of the tenant of this moment. */
    public function approvals(): Approvals
    {
        return self::make(Approvals::class)->forTenant($this->identity()->tenant);
    }

    /**
     * For tests: takes the place of what tools do.
     *
     * @param ?array<string, mixed> $fakes see {@see PillionFake}; null fakes every tool
     */
    public function fake(?array $fakes = null): PillionFake
    {
        $hooks = self::hooks();
        if ($hooks->fake !== null) {
            Workshop::current()->forgetRegistries();
            return $hooks->fake->add($fakes);
        }
        $hooks->fake = new PillionFake(self::directory(), $fakes);
        Workshop::current()->forgetRegistries();
        Workshop::current()->fakeApplicationTools($hooks->fake);
        return $hooks->fake;
    }

    /** @param list<mixed> $results one for each call */
    public function sequence(array $results = []): ResultSequence
    {
        return new ResultSequence($results);
    }

    /** @param callable(): mixed $resolver returns a user, a key, or null; by default who is logged in */
    public function resolveUserUsing(callable $resolver): void
    {
        self::hooks()->resolveUserUsing($resolver);
    }

    /** @param callable(): mixed $resolver returns what keeps caches and limits of tenants apart */
    public function resolveTenantUsing(callable $resolver): void
    {
        self::hooks()->resolveTenantUsing($resolver);
    }

    /**
     * @param callable(?string $user): ?string $resolver returns the user's own token for a server, which
     *        goes out in place of every credential of its entry
     *
     * @throws \Pillion\Exception\InvalidInputException when the server is a command or a tool class
     */
    public function authenticateUsing(string $server, callable $resolver): void
    {
        if (self::directory()->has($server)) {
            self::directory()->get($server)->assertTakesTokenOfUser();
        }
        self::hooks()->authenticateUsing($server, $resolver);
    }

    /** Says goodbye to the servers that were spoken to. */
    public function disconnect(): void
    {
        Workshop::current()->disconnect();
    }

    /** @param array<int, mixed> $arguments */
    public function __call(string $method, array $arguments): mixed
    {
        $fake = self::hooks()->fake;
        if (!method_exists(PillionFake::class, $method)) {
            throw new \BadMethodCallException("Pillion has no method $method()");
        }
        if ($fake === null) {
            throw new \LogicException("Call Pillion::fake() before Pillion::$method()");
        }
        return $fake->{$method}(...$arguments);
    }

    /**
     * For a queued job, in which it goes on for the user and tenant of this moment.
     *
     * @return array{user: string, tenant: string}
     */
    public function __serialize(): array
    {
        $identity = $this->identity();
        return ['user' => $identity->user ?? '', 'tenant' => $identity->tenant ?? ''];
    }

    /** @param array{user: string, tenant: string} $data */
    public function __unserialize(array $data): void
    {
        $this->user = $data['user'];
        $this->tenant = $data['tenant'];
    }

    /** Who calls now: a user who has logged in since is another. */
    private function identity(): Identity
    {
        $user = $this->user ?? self::hooks()->user(Container::getInstance());
        $tenant = $this->tenant ?? self::hooks()->tenant();
        return new Identity($user === '' ? null : $user, $tenant === '' ? null : $tenant);
    }

    private static function hooks(): Hooks
    {
        return self::make(Hooks::class);
    }

    private static function directory(): ServerDirectory
    {
        return self::make(ServerDirectory::class);
    }

    private static function config(string $key, mixed $default = null): mixed
    {
        return self::make('config')->get("pillion.$key", $default);
    }

    /** From the container of the moment: Octane has another for each request. */
    private static function make(string $abstract): mixed
    {
        return Container::getInstance()->make($abstract);
    }
}
