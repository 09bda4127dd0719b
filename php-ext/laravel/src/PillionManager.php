<?php

declare(strict_types=1);

namespace Pillion\Laravel;

use Illuminate\Cache\RateLimiter;
use Illuminate\Contracts\Config\Repository;
use Illuminate\Contracts\Container\Container;
use Illuminate\Support\Collection;
use Illuminate\Support\Str;
use Pillion\Laravel\Approvals\Approvals;
use Pillion\Laravel\Execution\Executor;
use Pillion\Laravel\Execution\ExecutorOptions;
use Pillion\Laravel\Execution\RateLimits;
use Pillion\Laravel\Models\Capabilities;
use Pillion\Laravel\Models\ModelDirectory;
use Pillion\Laravel\Models\ModelTools;
use Pillion\Laravel\Servers\Clients;
use Pillion\Laravel\Servers\OpenClients;
use Pillion\Laravel\Servers\Server;
use Pillion\Laravel\Servers\ServerDirectory;
use Pillion\Laravel\Testing\PillionFake;
use Pillion\Laravel\Testing\ResultSequence;
use Pillion\Laravel\Tools\Offer;
use Pillion\Laravel\Tools\RequestRegistry;
use Pillion\Sidecar;
use Pillion\ToolCall;
use Pillion\ToolInterface;
use Pillion\ToolRegistry;
use Pillion\ToolResult;
use Psr\Log\LoggerInterface;

/**
 * What the facade `Pillion` speaks to. It belongs to one request or job, and to one user and
 * tenant; {@see forUser()} and {@see forTenant()} give one for others.
 *
 * @mixin PillionFake
 */
class PillionManager
{
    private const MOST_IDENTITIES = 16;

    /** @var Recent<Clients> by identity: one user's credentials are for none of another's calls */
    private readonly Recent $clients;

    /** @var Recent<array{ToolRegistry, array<string, string>}> by identity, with the servers' tools and without */
    private readonly Recent $registries;

    public function __construct(
        private readonly Container $app,
        private readonly Hooks $hooks,
        private readonly ?string $user = null,
        private readonly ?string $tenant = null,
    ) {
        $this->clients = new Recent(self::MOST_IDENTITIES);
        $this->registries = new Recent(2 * self::MOST_IDENTITIES);
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
        $this->directory()->get($name);
        $identity = $this->identity();
        return new Server($name, $identity->user, $identity->tenant, $this);
    }

    /** @return array<string, Server> */
    public function servers(): array
    {
        $names = $this->directory()->names();
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
        return $this->executor()->execute(new ToolCall(self::newCallId(), $tool, $arguments), $context);
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
        return $this->registryOf($this->identity(), $withServers)[0];
    }

    /** @return array<string, string> the servers and classes whose tools are not in the registry, and why */
    public function leftOut(): array
    {
        $servers = $this->registries->peek(self::registryKey($this->identity(), true))[1] ?? [];
        return $this->app->make(LeftOut::class)->reasons() + $servers;
    }

    /**
     * An executor for the user and tenant of this moment. A call whose context names another `user` is
     * run with that user's credentials.
     *
     * @param array<string, mixed> $options of {@see \Pillion\ToolExecutor}, over those of the configuration
     */
    public function executor(array $options = []): Executor
    {
        return $this->makeExecutor($this->identity(), true, $options);
    }

    /**
     * The tools that a model sees.
     *
     * @param string|array<string, mixed>|object $model its name, or what says itself what it can do
     */
    public function forModel(string|array|object $model): ModelTools
    {
        $capabilities = $this->app->make(ModelDirectory::class)->capabilities($model);
        // Nobody is asked for tools that the model would not be shown.
        $withServers = Capabilities::wantsServers($capabilities);
        $identity = $this->identity();
        $rounds = (int) $this->config()->get('pillion.limits.max_rounds', 5);
        return new ModelTools(
            $capabilities,
            $this->registryOf($identity, $withServers)[0],
            $this->makeExecutor($identity, $withServers, []),
            $rounds,
        );
    }

    /** @param mixed $user a model or its key; null for nobody */
    public function forUser(mixed $user): static
    {
        return new static($this->app, $this->hooks, self::userKey($user) ?? '', $this->tenant);
    }

    /** @param mixed $tenant a model or its key; null for none */
    public function forTenant(mixed $tenant): static
    {
        return new static($this->app, $this->hooks, $this->user, Hooks::key($tenant) ?? '');
    }

    public function sidecar(): Sidecar
    {
        $socket = $this->config()->get('pillion.sidecar.socket');
        return new Sidecar($socket === '' ? null : $socket, $this->config()->get('pillion.sidecar.timeout', 60));
    }

    /** Those of the tenant of this moment. */
    public function approvals(): Approvals
    {
        return $this->app->make(Approvals::class)->forTenant($this->identity()->tenant);
    }

    /**
     * For tests: takes the place of what tools do.
     *
     * @param ?array<string, mixed> $fakes see {@see PillionFake}; null fakes every tool
     */
    public function fake(?array $fakes = null): PillionFake
    {
        $this->registries->clear();
        $this->hooks->fake = $this->hooks->fake?->add($fakes) ?? new PillionFake($this->directory(), $fakes);
        return $this->hooks->fake;
    }

    /** @param list<mixed> $results one for each call */
    public function sequence(array $results = []): ResultSequence
    {
        return new ResultSequence($results);
    }

    /** @param callable(): mixed $resolver returns a user, a key, or null; by default who is logged in */
    public function resolveUserUsing(callable $resolver): void
    {
        $this->hooks->resolveUserUsing($resolver);
    }

    /** @param callable(): mixed $resolver returns what keeps caches and limits of tenants apart */
    public function resolveTenantUsing(callable $resolver): void
    {
        $this->hooks->resolveTenantUsing($resolver);
    }

    /**
     * @param callable(?string $user): ?string $resolver returns the user's own token for a server, which
     *        goes out in place of every credential of its entry
     *
     * @throws \Pillion\Exception\InvalidInputException when the server is a command or a tool class
     */
    public function authenticateUsing(string $server, callable $resolver): void
    {
        if ($this->directory()->has($server)) {
            $this->directory()->get($server)->assertTakesTokenOfUser();
        }
        $this->hooks->authenticateUsing($server, $resolver);
    }

    /** Says goodbye to the servers that were spoken to. */
    public function disconnect(): void
    {
        foreach ($this->clients->all() as $clients) {
            $clients->disconnect();
        }
        $this->clients->clear();
        $this->registries->clear();
    }

    /** @param array<int, mixed> $arguments */
    public function __call(string $method, array $arguments): mixed
    {
        $fake = $this->hooks->fake;
        if (!method_exists(PillionFake::class, $method)) {
            throw new \BadMethodCallException("Pillion has no method $method()");
        }
        if ($fake === null) {
            throw new \LogicException("Call Pillion::fake() before Pillion::$method()");
        }
        return $fake->{$method}(...$arguments);
    }

    /** @internal */
    public function faking(): ?PillionFake
    {
        return $this->hooks->fake;
    }

    /** @internal */
    public function clients(Identity $identity): Clients
    {
        return $this->clients->get($identity->key(), fn () => new Clients(
            $this->config(),
            $this->app->make('cache'),
            $this->hooks,
            $this->app->make(EventBridge::class),
            $this->app->make(OpenClients::class),
            $this->log(),
            $identity->user,
            $identity->tenant,
        ));
    }

    /** @internal */
    public function directory(): ServerDirectory
    {
        return $this->app->make(ServerDirectory::class);
    }

    /** @internal */
    public static function newCallId(): string
    {
        return 'call_' . Str::random(24);
    }

    /**
     * @internal
     *
     * @param ToolCall|array<string, mixed> $call
     */
    public static function toCall(ToolCall|array $call): ToolCall
    {
        return $call instanceof ToolCall ? $call : ToolCall::fromArray($call + ['id' => self::newCallId()]);
    }

    /** @internal */
    public static function userKey(mixed $user): ?string
    {
        return Hooks::key($user);
    }

    private static function registryKey(Identity $identity, bool $withServers): string
    {
        return ($withServers ? 'all:' : 'own:') . $identity->key();
    }

    /** @return array{ToolRegistry, array<string, string>} the registry, and which servers are left out of it */
    private function registryOf(Identity $identity, bool $withServers): array
    {
        return $this->registries->get(
            self::registryKey($identity, $withServers),
            fn () => $this->makeRegistry($identity, $withServers),
        );
    }

    /** @return array{ToolRegistry, array<string, string>} */
    private function makeRegistry(Identity $identity, bool $withServers): array
    {
        $fake = $this->hooks->fake;
        $own = $this->app->make(ToolRegistry::class);
        if (!$withServers || ($fake !== null && !$fake->allowsStrayCalls())) {
            return [RequestRegistry::make($own, $this->config(), null, $fake), []];
        }
        $offer = new Offer(
            $this->config(),
            $this->app->make('cache'),
            $this->directory(),
            $this->clients($identity),
            $this->log(),
            $this->config()->get('pillion.sidecar.register', false) ? $this->sidecar() : null,
            $identity->user,
        );
        $registry = RequestRegistry::make($own, $this->config(), $offer, $fake);
        return [$registry, $offer->leftOut()];
    }

    /** @param array<string, mixed> $options */
    private function makeExecutor(Identity $identity, bool $withServers, array $options): Executor
    {
        $registry = $this->registryOf($identity, $withServers)[0];
        $limiter = $this->app->make(RateLimiter::class);
        $limits = $this->config()->get('pillion.limits.rate_limits', []);
        $executor = new Executor(
            $registry,
            $options + ExecutorOptions::of($this->config(), $this->directory(), $registry),
            $this->app->make(Approvals::class)->forTenant($identity->tenant),
            new RateLimits($limiter, $limits, $identity->tenant),
            $this->hooks->fake,
            $identity->user,
            fn (string $user) => $this->makeExecutor($identity->withUser($user), $withServers, $options),
        );
        return $executor->setEventDispatcher($this->app->make(EventBridge::class))->setLogger($this->log());
    }

    /** Who calls now: a user who has logged in since is another. */
    private function identity(): Identity
    {
        $user = $this->user ?? $this->hooks->user($this->app);
        $tenant = $this->tenant ?? $this->hooks->tenant();
        return new Identity($user === '' ? null : $user, $tenant === '' ? null : $tenant);
    }

    private function config(): Repository
    {
        return $this->app->make('config');
    }

    private function log(): ?LoggerInterface
    {
        $channel = $this->config()->get('pillion.log.channel');
        return $channel === false ? null : $this->app->make('log')->channel($channel);
    }
}
