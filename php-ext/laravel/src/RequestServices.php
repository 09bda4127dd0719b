<?php

declare(strict_types=1);

namespace Pillion\Laravel;

use Illuminate\Container\Container;
use Illuminate\Contracts\Config\Repository;
use Pillion\Laravel\Approvals\Approvals;
use Pillion\Laravel\Execution\Admission;
use Pillion\Laravel\Execution\Executor;
use Pillion\Laravel\Execution\ExecutorOptions;
use Pillion\Laravel\Execution\RateLimits;
use Pillion\Laravel\Servers\ClientLog;
use Pillion\Laravel\Servers\Clients;
use Pillion\Laravel\Servers\OpenClients;
use Pillion\Laravel\Servers\ServerDirectory;
use Pillion\Laravel\Testing\PillionFake;
use Pillion\Laravel\Tools\RemoteToolLoader;
use Pillion\Laravel\Tools\RequestRegistry;
use Pillion\Sidecar;
use Pillion\ToolRegistry;
use Psr\Log\LoggerInterface;

/**
 * Creates the services for calls and caches them for one request or job, separately for each user and tenant,
 * so that credentials are never used for another user's calls.
 *
 * @internal
 */
final class RequestServices
{
    private const MAX_IDENTITIES = 16;

    /** @var BoundedCache<Clients> by identity */
    private readonly BoundedCache $clients;

    /**
     * @var BoundedCache<array{ToolRegistry, array<string, string>, int}> the registries by
     *      identity, with and without the servers' tools, each with the skipped servers and the
     *      time of the next attempt
     */
    private readonly BoundedCache $registries;

    public function __construct(private readonly Container $app)
    {
        $this->clients = new BoundedCache(self::MAX_IDENTITIES);
        $this->registries = new BoundedCache(2 * self::MAX_IDENTITIES);
    }

    /** Returns the services of the current request or job. */
    public static function current(): self
    {
        $app = Container::getInstance();
        $services = $app->make(self::class);
        if ($services->app !== $app) {
            // An instance that belongs to another application is replaced: Octane's first request
            // gets a copy of the booted application, which includes the instances created during
            // boot.
            $app->forgetInstance(self::class);
            $services = $app->make(self::class);
        }
        return $services;
    }

    public function clients(Identity $identity): Clients
    {
        return $this->clients->get($identity->key(), fn () => new Clients(
            $this->config(),
            $this->app->make('cache'),
            $this->app->make(Hooks::class),
            $this->app->make(EventBridge::class),
            $this->app->make(OpenClients::class),
            $this->log(),
            $identity->user,
            $identity->tenant,
        ));
    }

    public function registry(Identity $identity, bool $withServers): ToolRegistry
    {
        $key = self::registryKey($identity, $withServers);
        [, $skippedServers, $retryAt] = $this->registries->peek($key) ?? [null, [], 0];
        // A registry without the skipped servers is created again after some time, so that a
        // long-running command finds servers that are available again.
        if ($skippedServers !== [] && now()->getTimestamp() > $retryAt) {
            $this->registries->forget($key);
        }
        return $this->registries->get($key, fn () => $this->makeRegistry($identity, $withServers))[0];
    }

    /** @return array<string, string> the reasons for skipped servers and classes, by name */
    public function skipped(Identity $identity): array
    {
        $skippedServers = $this->registries->peek(self::registryKey($identity, true))[1] ?? [];
        return $this->app->make(SkippedEntries::class)->reasons() + $skippedServers;
    }

    /** @param array<string, mixed> $options options that override the configuration */
    public function executor(Identity $identity, bool $withServers, array $options = []): Executor
    {
        $registry = $this->registry($identity, $withServers);
        $approvals = $this->app->make(Approvals::class)->forTenant($identity->tenant);
        $limits = RateLimits::forTenant($this->app, $identity->tenant);
        $admission = new Admission($registry, $approvals, $limits, $options['before'] ?? null);
        $configuredOptions = ExecutorOptions::fromConfig($this->config(), $this->app->make(ServerDirectory::class));
        $executor = ExecutorOptions::apply($options, $configuredOptions, fn (array $mergedOptions) => new Executor(
            $registry,
            $mergedOptions,
            $approvals,
            $admission,
            $this->app->make(Hooks::class),
            $identity->user,
            fn (string $user) => $this->executor($identity->withUser($user), $withServers, $options),
        ));
        return $executor->setEventDispatcher($this->app->make(EventBridge::class))->setLogger($this->log());
    }

    public function sidecar(): Sidecar
    {
        return new Sidecar(timeout: ConfigReader::toNumber(ConfigReader::read($this->config(), 'sidecar.timeout', 60)));
    }

    public function disconnect(): void
    {
        foreach ($this->clients->all() as $clients) {
            $clients->disconnect();
        }
        $this->clients->clear();
        $this->registries->clear();
    }

    public function forgetRegistries(): void
    {
        $this->registries->clear();
    }

    /** Fakes the tools of the application's own registry, for code that does not use {@see registry()}. */
    public function fakeApplicationTools(PillionFake $fake): void
    {
        if ($this->app->resolved(ToolRegistry::class)) {
            $fake->wrapAll($this->app->make(ToolRegistry::class));
        } else {
            $this->app->afterResolving(ToolRegistry::class, $fake->wrapAll(...));
        }
    }

    private static function registryKey(Identity $identity, bool $withServers): string
    {
        return ($withServers ? 'all:' : 'own:') . $identity->key();
    }

    /** @return array{ToolRegistry, array<string, string>, int} like {@see $registries} */
    private function makeRegistry(Identity $identity, bool $withServers): array
    {
        $fake = $this->app->make(Hooks::class)->fake;
        $applicationTools = $this->app->make(ToolRegistry::class);
        if (!$withServers || ($fake !== null && !$fake->allowsStrayCalls())) {
            return [RequestRegistry::make($applicationTools, $this->config(), null, $fake), [], 0];
        }
        $loader = new RemoteToolLoader(
            $this->config(),
            $this->app->make('cache'),
            $this->app->make(ServerDirectory::class),
            $this->clients($identity),
            $this->log(),
            ConfigReader::readFlag($this->config(), 'sidecar.register') ? $this->sidecar() : null,
            $identity->user,
        );
        $registry = RequestRegistry::make($applicationTools, $this->config(), $loader, $fake);
        $retryAt = now()->getTimestamp() + ConfigReader::readWholeNumber($this->config(), 'cache.retry_after', 30);
        return [$registry, $loader->skipped(), $retryAt];
    }

    private function config(): Repository
    {
        return $this->app->make('config');
    }

    /** Returns the log channel for the application's tools; null if logging is disabled. */
    public function log(): ?ClientLog
    {
        $channel = ConfigReader::readLogChannel($this->config());
        if ($channel === false) {
            return null;
        }
        $logger = $this->app->make('log')->channel($channel);
        assert($logger instanceof LoggerInterface);
        return new ClientLog($logger);
    }
}
