<?php

declare(strict_types=1);

namespace Pillion\Laravel;

use Illuminate\Container\Container as Application;
use Illuminate\Contracts\Auth\Access\Gate;
use Illuminate\Contracts\Auth\Authenticatable;
use Illuminate\Contracts\Container\Container;
use Illuminate\Contracts\Foundation\CachesConfiguration;
use Illuminate\Contracts\Foundation\CachesRoutes;
use Illuminate\Queue\Events\JobExceptionOccurred;
use Illuminate\Queue\Events\JobProcessed;
use Illuminate\Routing\Router;
use Illuminate\Support\ServiceProvider;
use Pillion\Exception\InvalidInputException;
use Pillion\Laravel\Approvals\Approvals;
use Pillion\Laravel\Approvals\CacheApprovalStore;
use Pillion\Laravel\Approvals\DatabaseApprovalStore;
use Pillion\Laravel\Chat\ChatConfig;
use Pillion\Laravel\Configuration\KnownSettings;
use Pillion\Laravel\Contracts\ApprovalStore;
use Pillion\Laravel\Http\ConsoleController;
use Pillion\Laravel\Models\ModelDirectory;
use Pillion\Laravel\Servers\OpenClients;
use Pillion\Laravel\Servers\ServerDirectory;
use Pillion\Laravel\Tools\ApplicationTools;
use Pillion\Sidecar;
use Pillion\ToolRegistry;

/** Registers Pillion in a Laravel application. Composer's package discovery finds this provider. */
final class PillionServiceProvider extends ServiceProvider
{
    /**
     * Laravel's check of CSRF tokens, under its names in all versions of Laravel. Laravel also omits
     * subclasses of these classes, such as the application's own `VerifyCsrfToken`.
     */
    private const CSRF_MIDDLEWARE = [
        'Illuminate\\Foundation\\Http\\Middleware\\VerifyCsrfToken',
        'Illuminate\\Foundation\\Http\\Middleware\\ValidateCsrfToken',
        'Illuminate\\Foundation\\Http\\Middleware\\PreventRequestForgery',
    ];

    public function register(): void
    {
        $this->checkSettings();
        $this->mergeDefaults();
        $this->defineLogChannel();
        Sidecar::resolveSocketUsing(SidecarSocket::readPath(...));

        $this->app->singleton(Hooks::class);
        // This registry is a singleton, so that the tools that an application registers while it
        // boots are available in every request of a worker.
        $this->app->singleton(
            ToolRegistry::class,
            fn (Container $app) => $app->make(ApplicationTools::class)->registry(),
        );
        $this->app->singleton(SkippedEntries::class, fn (Container $app) => new SkippedEntries(
            $app->make('config'),
            $app->make('log'),
        ));
        // Each request and job gets new instances of the following services, because they read the
        // configuration or contain data of a request.
        $this->app->scoped(PillionManager::class, fn () => new PillionManager());
        $this->app->scoped(RequestServices::class, fn (Container $app) => new RequestServices($app));
        $this->app->scoped(OpenClients::class);
        $this->app->bind(ApprovalStore::class, fn (Container $app) => self::createApprovalStore($app));
        $this->app->bind(Approvals::class, fn (Container $app) => new Approvals(
            $app->make(ApprovalStore::class),
            $app->make('events'),
            ConfigReader::readWholeNumber($app->make('config'), 'approvals.expires_after', 3600),
            $app->make(Hooks::class)->tenant(),
            ConfigReader::readLimit($app->make('config'), 'approvals.max_pending'),
            ConfigReader::readLimit($app->make('config'), 'approvals.max_pending_per_user'),
        ));
        $this->app->bind(ModelDirectory::class, fn (Container $app) => new ModelDirectory($app->make('config')));
        $this->app->bind(ChatConfig::class, fn (Container $app) => new ChatConfig(
            $app->make('config'),
            $app->make(ModelDirectory::class),
        ));
        $this->app->bind(ServerDirectory::class, fn (Container $app) => new ServerDirectory(
            $app->make('config'),
            $app->make(SkippedEntries::class),
        ));
    }

    public function boot(): void
    {
        $this->defineGate();
        $this->addConsoleRoutes();
        if ($this->app->runningInConsole()) {
            $this->publish();
            $this->commands([
                Console\ApprovalsCommand::class,
                Console\CallCommand::class,
                Console\MakeToolCommand::class,
                Console\ProbeCommand::class,
                Console\ServersCommand::class,
                Console\ToolsCommand::class,
                Console\WorkCommand::class,
            ]);
            // The class is checked first, because laravel/framework has `AboutCommand` only since
            // version 9.21.
            $aboutCommand = 'Illuminate\\Foundation\\Console\\AboutCommand';
            if (class_exists($aboutCommand)) {
                $aboutCommand::add('Pillion', fn () => $this->app->make(Console\AboutSection::class)->lines());
            }
        }
        $closeSessions = static function (): void {
            $app = Application::getInstance();
            if ($app->resolved(OpenClients::class)) {
                $app->make(OpenClients::class)->disconnect();
            }
        };
        // Closes the sessions after each request (also with Octane), each command, and each job of a
        // queue worker.
        $this->app->terminating($closeSessions);
        $this->app->make('events')->listen([JobProcessed::class, JobExceptionOccurred::class], $closeSessions);
    }

    /**
     * Checks the application's own settings, before the package's defaults are added for missing
     * settings.
     *
     * @throws InvalidInputException naming the invalid key
     */
    private function checkSettings(): void
    {
        try {
            KnownSettings::check($this->app->make('config')->get('pillion', []));
        } catch (InvalidInputException $exception) {
            if (!$this->isConfigurationCached()) {
                throw $exception;
            }
            // The message names the file of the cached configuration, because no Artisan command
            // starts with an invalid configuration, not even config:clear.
            $file = $this->app->getCachedConfigPath();
            throw new InvalidInputException($exception->getMessage() . " (cached: delete $file after the correction)", 0, $exception);
        }
    }

    private function isConfigurationCached(): bool
    {
        return $this->app instanceof CachesConfiguration && $this->app->configurationIsCached();
    }

    /**
     * Merges the package's defaults into the configuration like `mergeConfigFrom()`, but within
     * each group: an application that sets one key of a group keeps the defaults of the group's
     * other keys.
     */
    private function mergeDefaults(): void
    {
        if ($this->isConfigurationCached()) {
            return;
        }
        $config = $this->app->make('config');
        $settings = $config->get('pillion', []);
        foreach (require __DIR__ . '/../config/pillion.php' as $key => $default) {
            $isGroup = is_array($default) && !in_array($key, ['servers', 'models'], true);
            $isSet = array_key_exists($key, $settings);
            $settings[$key] = match (true) {
                !$isSet => $default,
                $isGroup => $settings[$key] + $default,
                default => $settings[$key],
            };
        }
        $config->set('pillion', $settings);
    }

    /**
     * Defines the gate of the console, unless the application has defined the gate. An application
     * that defines the gate later replaces this definition.
     */
    private function defineGate(): void
    {
        $this->callAfterResolving(Gate::class, static function (Gate $gate): void {
            if (!$gate->has(ConsoleController::GATE)) {
                $gate->define(
                    ConsoleController::GATE,
                    static fn (?Authenticatable $user = null): bool => Application::getInstance()->make('app')->environment('local'),
                );
            }
        });
    }

    private function addConsoleRoutes(): void
    {
        $config = $this->app->make('config');
        $path = ConfigReader::readOptionalText($config, 'console.path');
        if ($path === null || ($this->app instanceof CachesRoutes && $this->app->routesAreCached())) {
            return;
        }
        $domain = ConfigReader::readOptionalText($config, 'console.domain');
        $attributes = ['prefix' => $path, 'middleware' => array_values(ConfigReader::readStrings($config, 'console.middleware'))]
            + ($domain === null ? [] : ['domain' => $domain]);
        $this->app->make('router')->group($attributes, static function (Router $router): void {
            // The console checks its own token, which is bound to the session. Laravel's check
            // would reject all forms of the console, because they have no field `_token`.
            $router->match(['GET', 'HEAD', 'POST'], '{consolePath?}', ConsoleController::class)
                ->where('consolePath', '.*')
                ->withoutMiddleware(self::CSRF_MIDDLEWARE)
                ->name('pillion.console');
        });
    }

    private function publish(): void
    {
        $this->publishes(
            [__DIR__ . '/../config/pillion.php' => $this->app->configPath('pillion.php')],
            'pillion-config',
        );
        $this->publishes(
            [__DIR__ . '/../database/migrations' => $this->app->databasePath('migrations')],
            'pillion-migrations',
        );
        $this->publishes([__DIR__ . '/../stubs' => $this->app->basePath('stubs')], 'pillion-stubs');
    }

    private function defineLogChannel(): void
    {
        $config = $this->app->make('config');
        if (!$config->has('logging.channels.pillion')) {
            $config->set('logging.channels.pillion', [
                'driver' => 'single',
                'path' => $this->app->storagePath() . '/logs/pillion.log',
                'level' => ConfigReader::read($config, 'log.level', 'info'),
            ]);
        }
    }

    private static function createApprovalStore(Container $app): ApprovalStore
    {
        $config = $app->make('config');
        return match (ConfigReader::read($config, 'approvals.driver', 'cache')) {
            'cache' => new CacheApprovalStore($app->make('cache')->store(ConfigReader::readOptionalText($config, 'approvals.store'))),
            'database' => new DatabaseApprovalStore(
                $app->make('db')->connection(ConfigReader::readOptionalText($config, 'approvals.connection')),
                ConfigReader::read($config, 'approvals.table', 'pillion_approvals'),
            ),
        };
    }
}
