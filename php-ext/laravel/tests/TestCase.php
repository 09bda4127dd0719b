<?php

declare(strict_types=1);

namespace Pillion\Laravel\Tests;

use Illuminate\Foundation\Application;
use Illuminate\Foundation\Bootstrap\HandleExceptions;
use Illuminate\Foundation\Testing\TestCase as LaravelTestCase;
use Illuminate\Support\Facades\Artisan;
use Pillion\Laravel\Tests\Support\Folder;
use Pillion\Laravel\Tests\Support\Laravel;
use Pillion\Laravel\Tests\Support\Sidecar;

/** A Laravel application with the package as Composer installs it: package discovery finds the provider. */
abstract class TestCase extends LaravelTestCase
{
    /** The files of an application whose database other processes share. */
    protected const DATABASE_FILE = [
        'config/database.php' => "<?php return ['default' => 'sqlite', 'migrations' => 'migrations',"
            . " 'connections' => ['sqlite' => ['driver' => 'sqlite', 'database' => database_path('test.sqlite'), 'prefix' => '']]];",
        'database/test.sqlite' => '',
    ];

    protected Folder $folder;

    public function createApplication(): Application
    {
        $package = json_decode((string) file_get_contents(__DIR__ . '/../composer.json'), true);
        $files = [
            'composer.json' => '{"autoload": {"psr-4": {"App\\\\": "app/"}}}',
            'vendor/composer/installed.json' => (string) json_encode(['packages' => [$package]]),
            'bootstrap/app.php' => '<?php return ' . Laravel::class . '::make(dirname(__DIR__));',
            'config/app.php' => '<?php return ' . var_export($this->applicationConfig(), true) . ';',
            'config/cache.php' => "<?php return ['default' => 'array', 'prefix' => '', 'stores' => ['array' => ['driver' => 'array']]];",
            'config/queue.php' => "<?php return ['default' => 'sync', 'connections' => ['sync' => ['driver' => 'sync']]];",
            'config/auth.php' => "<?php return ['defaults' => ['guard' => 'web'], 'guards' => ['web' => ['driver' => 'session', 'provider' => 'users']],"
                . " 'providers' => ['users' => ['driver' => 'eloquent', 'model' => Illuminate\\Foundation\\Auth\\User::class]]];",
            'config/session.php' => "<?php return ['driver' => 'array', 'lifetime' => 120, 'cookie' => 'session', 'path' => '/', 'domain' => null, 'secure' => false];",
            'config/database.php' => "<?php return ['default' => 'sqlite', 'migrations' => 'migrations',"
                . " 'connections' => ['sqlite' => ['driver' => 'sqlite', 'database' => ':memory:', 'prefix' => '']]];",
            'config/logging.php' => "<?php return ['default' => 'single', 'channels' => ['single' => ['driver' => 'single', 'path' => storage_path('logs/laravel.log')]]];",
        ];
        $this->folder = new Folder($this->files() + $files);
        $app = Laravel::application($this->folder->path);
        // Without the extension, the library sends calls to a sidecar.
        if (!extension_loaded('pillion') && getenv('PILLION') !== false) {
            $app->make('config')->set('pillion.sidecar.socket', Sidecar::socket());
            // The file is for other processes of the application, because this process has already
            // read its variables.
            $this->folder->write('.env', 'PILLION_SOCKET=' . Sidecar::socket());
        }
        return $app;
    }

    protected function tearDown(): void
    {
        parent::tearDown();
        // Laravel 10 and older leave their handlers in place, which PHPUnit 11 and later report as risky.
        if (!method_exists(HandleExceptions::class, 'flushHandlersState')) {
            restore_error_handler();
            restore_exception_handler();
        }
        $this->folder->remove();
    }

    /** @return array<string, string> more files of the application */
    protected function files(): array
    {
        return [];
    }

    /** @param array<string, mixed> $values under `pillion.` */
    protected function configure(array $values): void
    {
        foreach ($values as $key => $value) {
            config(["pillion.$key" => $value]);
        }
    }

    /**
     * Skips tests of credentials and sessions without the extension, because a sidecar has its
     * own.
     */
    protected function needsTheExtension(): void
    {
        if (!extension_loaded('pillion')) {
            self::markTestSkipped('The library in plain PHP speaks to MCP servers through the sidecar.');
        }
    }

    protected function needsASidecar(): void
    {
        if (getenv('PILLION') === false) {
            self::markTestSkipped('PILLION names no sidecar: use php-ext/laravel/run-tests');
        }
    }

    /** @return array{int, string} the exit code, and what was printed */
    protected function artisanOutput(string $command): array
    {
        $code = Artisan::call($command);
        return [$code, Artisan::output()];
    }

    /** @return array<string, mixed> */
    private function applicationConfig(): array
    {
        return [
            'name' => 'Test',
            'env' => 'testing',
            'debug' => true,
            'key' => 'base64:' . base64_encode(str_repeat('k', 32)),
            'cipher' => 'AES-256-CBC',
            'timezone' => 'UTC',
            'locale' => 'en',
            'fallback_locale' => 'en',
            'providers' => [
                \Illuminate\Auth\AuthServiceProvider::class,
                \Illuminate\Bus\BusServiceProvider::class,
                \Illuminate\Cache\CacheServiceProvider::class,
                \Illuminate\Foundation\Providers\ConsoleSupportServiceProvider::class,
                \Illuminate\Cookie\CookieServiceProvider::class,
                \Illuminate\Database\DatabaseServiceProvider::class,
                \Illuminate\Encryption\EncryptionServiceProvider::class,
                \Illuminate\Filesystem\FilesystemServiceProvider::class,
                \Illuminate\Foundation\Providers\FoundationServiceProvider::class,
                \Illuminate\Hashing\HashServiceProvider::class,
                \Illuminate\Queue\QueueServiceProvider::class,
                \Illuminate\Session\SessionServiceProvider::class,
                \Illuminate\Translation\TranslationServiceProvider::class,
                \Illuminate\View\ViewServiceProvider::class,
            ],
            'aliases' => [],
        ];
    }
}
