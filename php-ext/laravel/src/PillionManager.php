<?php

declare(strict_types=1);

namespace Pillion\Laravel;

use Illuminate\Container\Container;
use Illuminate\Support\Collection;
use Pillion\Exception\InvalidInputException;
use Pillion\Exception\UnavailableException;
use Pillion\Laravel\Approvals\Approvals;
use Pillion\Laravel\Chat\Chat;
use Pillion\Laravel\Chat\ChatConfig;
use Pillion\Laravel\Chat\FakeChat;
use Pillion\Laravel\Execution\CallReader;
use Pillion\Laravel\Execution\Executor;
use Pillion\Laravel\Models\ModelCapabilities;
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
 * The root of the facade `Pillion`, for the current user and tenant; {@see forUser()} and {@see
 * forTenant()} return managers for another user or tenant. The manager contains only the user and
 * the tenant, and resolves all services from the current request or job. Therefore the manager can
 * be stored, dumped and put into a queued job.
 *
 * @mixin PillionFake
 */
class PillionManager
{
    /**
     * @param ?string $user   null for the current user, '' for no user
     * @param ?string $tenant null for the current tenant, '' for no tenant
     */
    final public function __construct(private readonly ?string $user = null, private readonly ?string $tenant = null)
    {
    }

    /**
     * Returns the tools of the application, of the MCP servers and of the sidecar.
     *
     * @return Collection<string, ToolInterface>
     */
    public function tools(): Collection
    {
        return new Collection($this->registry()->getAll());
    }

    /**
     * Returns a server for the current user and tenant. The server keeps this user and tenant if
     * the current ones change later.
     *
     * @throws \Pillion\Exception\NotFoundException when the server is not configured
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
     * Runs a tool. A failure becomes a failed result.
     *
     * @param array<string, mixed> $arguments
     * @param array<string, mixed> $context   `user`, `channel`, and other values for tools
     */
    public function call(string $tool, array $arguments = [], array $context = []): ToolResult
    {
        return $this->executor()->execute(new ToolCall(CallReader::generateId(), $tool, $arguments), $context);
    }

    /**
     * Runs tools concurrently. A failed call does not affect other calls.
     *
     * @param list<ToolCall|array<string, mixed>> $calls  `['name' => ..., 'arguments' => [...]]`, or a call as a model sent it
     * @param array<string, mixed>                $context
     *
     * @return list<ToolResult> in the order of the calls
     */
    public function callTools(array $calls, array $context = []): array
    {
        return $this->executor()->executeParallel($calls, $context);
    }

    /**
     * Alias of {@see callTools()}.
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
     * Returns the tools of the current user and tenant: the application's tools (`app(ToolRegistry::class)`)
     * and, with `$withServers`, the tools of the MCP servers.
     */
    public function registry(bool $withServers = true): ToolRegistry
    {
        return RequestServices::current()->registry($this->identity(), $withServers);
    }

    /** @return array<string, string> the reasons for skipped servers, services and classes, by name */
    public function skipped(): array
    {
        return RequestServices::current()->skipped($this->identity());
    }

    /**
     * Returns an executor for the current user and tenant. A call whose context names another `user` runs
     * with that user's credentials.
     *
     * @param array<string, mixed> $options options of {@see \Pillion\ToolExecutor}, which override the configuration
     */
    public function executor(array $options = []): Executor
    {
        return RequestServices::current()->executor($this->identity(), true, $options);
    }

    /**
     * Returns the tools that a model sees.
     *
     * @param string|array<string, mixed>|object $model the model's name, or an array or object with its capabilities
     */
    public function forModel(#[SensitiveParameter] string|array|object $model): ModelTools
    {
        $capabilities = self::make(ModelDirectory::class)->capabilities($model);
        // Tools of servers are loaded only if the model may see them.
        $withServers = ModelCapabilities::allowsMcpTools($capabilities);
        $identity = $this->identity();
        return new ModelTools(
            $capabilities,
            RequestServices::current()->registry($identity, $withServers),
            RequestServices::current()->executor($identity, $withServers),
            ConfigReader::readWholeNumber(self::make('config'), 'limits.max_rounds', 5),
            ConfigReader::readWholeNumber(self::make('config'), 'limits.max_calls', 5),
        );
    }

    /**
     * Returns the chats of the current user and tenant with a model that calls tools until the
     * model gives its final response.
     *
     * @param string|array<string, mixed>|null $model   a model of `pillion.models` or of the model lists, or an entry
     *        in the same form; null for `pillion.chat.model`. In the sidecar, the name of one of the sidecar's models
     * @param array<string, mixed>             $options options of {@see ToolAwareChat}, which override the configuration
     *
     * @throws \Pillion\Exception\InvalidInputException when the model is unknown
     */
    public function chat(#[SensitiveParameter] string|array|null $model = null, array $options = []): Chat
    {
        $chatConfig = self::make(ChatConfig::class);
        $identity = $this->identity();
        $name = $model ?? $chatConfig->defaultModel();
        if ($chatConfig->runsInSidecar()) {
            return new Chat(function () use ($chatConfig, $name, $options): ToolAwareChat {
                self::hooks()->fake?->assertAllowed('the sidecar');
                return new ToolAwareChat(RequestServices::current()->sidecar(), $name, $chatConfig->options($options));
            }, $identity->user);
        }
        if ($name === null) {
            throw new InvalidInputException('No model for the chat: pass a name to Pillion::chat(), or set pillion.chat.model');
        }
        $entry = $chatConfig->model($name);
        return new Chat(function () use ($chatConfig, $identity, $entry, $options): ToolAwareChat|FakeChat {
            $fake = self::hooks()->fake;
            $options = $chatConfig->options($options);
            if ($fake?->hasModelAnswers()) {
                $tools = (new self($identity->user ?? '', $identity->tenant ?? ''))->forModel($entry);
                $model = (string) ($entry['model'] ?? $entry['id'] ?? '');
                return new FakeChat($fake, $tools, $model, $options['max_tool_rounds'] ?? 5, $options['max_tool_calls'] ?? 5);
            }
            $fake?->assertAllowed('a language model');
            if (!extension_loaded('pillion')) {
                throw new UnavailableException(
                    'A chat in the PHP process requires the extension pillion: install it, or run chats in the sidecar with '
                    . "PILLION_CHAT_IN=sidecar or 'chat' => ['in' => 'sidecar'] in config/pillion.php, with the models of the sidecar's configuration",
                );
            }
            $executor = RequestServices::current()->executor($identity, ModelCapabilities::allowsMcpTools($entry));
            return new ToolAwareChat($executor, $entry, $options);
        }, $identity->user);
    }

    /** @param mixed $user an Eloquent model or its key; null for no user */
    public function forUser(mixed $user): static
    {
        return new static(Hooks::key($user) ?? '', $this->tenant);
    }

    /** @param mixed $tenant an Eloquent model or its key; null for no tenant */
    public function forTenant(mixed $tenant): static
    {
        return new static($this->user, Hooks::key($tenant) ?? '');
    }

    /** @throws Testing\StrayToolCallException in a test that forbids calls to the sidecar */
    public function sidecar(): Sidecar
    {
        self::hooks()->fake?->assertAllowed('the sidecar');
        return RequestServices::current()->sidecar();
    }

    /** Returns the approvals of the current tenant. */
    public function approvals(): Approvals
    {
        return self::make(Approvals::class)->forTenant($this->identity()->tenant);
    }

    /**
     * Replaces the execution of tools in a test.
     *
     * @param ?array<string, mixed> $fakes see {@see PillionFake}; null fakes every tool
     */
    public function fake(?array $fakes = null): PillionFake
    {
        $hooks = self::hooks();
        if ($hooks->fake !== null) {
            RequestServices::current()->forgetRegistries();
            return $hooks->fake->add($fakes);
        }
        $hooks->fake = new PillionFake(self::directory(), $fakes);
        RequestServices::current()->forgetRegistries();
        RequestServices::current()->fakeApplicationTools($hooks->fake);
        return $hooks->fake;
    }

    /** @param list<mixed> $results the results, one for each call */
    public function sequence(array $results = []): ResultSequence
    {
        return new ResultSequence($results);
    }

    /** @param callable(): mixed $resolver returns a user, a key, or null; default: the user who is logged in */
    public function resolveUserUsing(callable $resolver): void
    {
        self::hooks()->resolveUserUsing($resolver);
    }

    /**
     * @param callable(?\Illuminate\Contracts\Auth\Authenticatable): ?string $resolver returns the name under which the
     *        console records a user's decisions; default: the e-mail address, or the key of a user without one
     */
    public function resolveConsoleUserUsing(callable $resolver): void
    {
        self::hooks()->resolveConsoleUserUsing($resolver);
    }

    /** @param callable(): mixed $resolver returns the tenant, which separates caches and limits */
    public function resolveTenantUsing(callable $resolver): void
    {
        self::hooks()->resolveTenantUsing($resolver);
    }

    /**
     * @param callable(?string $user): ?string $resolver returns the user's own token for a server, which
     *        replaces all credentials of the server's entry
     *
     * @throws \Pillion\Exception\InvalidInputException when the server is a command or a tool class
     */
    public function authenticateUsing(string $server, callable $resolver): void
    {
        if (self::directory()->has($server)) {
            self::directory()->get($server)->assertAcceptsUserTokens();
        }
        self::hooks()->authenticateUsing($server, $resolver);
    }

    /** Closes the sessions with the MCP servers that the current request or job has used. */
    public function disconnect(): void
    {
        RequestServices::current()->disconnect();
    }

    /** @param array<int, mixed> $arguments */
    public function __call(string $method, array $arguments): mixed
    {
        $fake = self::hooks()->fake;
        if (!method_exists(PillionFake::class, $method)) {
            throw new \BadMethodCallException("Unknown method Pillion::$method()");
        }
        if ($fake === null) {
            throw new \LogicException("Call Pillion::fake() before Pillion::$method()");
        }
        return $fake->{$method}(...$arguments);
    }

    /**
     * Serializes the manager for a queued job. In the job, the manager acts for the user and tenant
     * that are current now.
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

    /**
     * The identity is resolved for each call, because the user may log in or out between two calls.
     */
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

    /**
     * Resolves a service from the current container: Octane creates a new container for each
     * request.
     */
    private static function make(string $abstract): mixed
    {
        return Container::getInstance()->make($abstract);
    }
}
