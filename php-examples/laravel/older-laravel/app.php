<?php

declare(strict_types=1);

/*
 * Replaces bootstrap/app.php on Laravel 8 to 10, which lack Application::configure(): `run` copies this file.
 * All other files of the application are the same for each version of Laravel.
 */

use Illuminate\Contracts\Console\Kernel as ConsoleKernel;
use Illuminate\Contracts\Debug\ExceptionHandler;
use Illuminate\Contracts\Http\Kernel as HttpKernel;
use Illuminate\Foundation\Application;
use Illuminate\Foundation\Bootstrap\LoadConfiguration;
use Illuminate\Http\Request;
use Illuminate\Support\Facades\Route;
use Symfony\Component\Console\Input\InputInterface;
use Symfony\Component\Console\Output\ConsoleOutput;

$app = new class (dirname(__DIR__)) extends Application {
    public function handleRequest(Request $request): void
    {
        $kernel = $this->make(HttpKernel::class);
        $response = $kernel->handle($request)->send();
        $kernel->terminate($request, $response);
    }

    public function handleCommand(InputInterface $input): int
    {
        $kernel = $this->make(ConsoleKernel::class);
        $status = $kernel->handle($input, new ConsoleOutput());
        $kernel->terminate($input, $status);
        return $status;
    }
};
$app->singleton(HttpKernel::class, Illuminate\Foundation\Http\Kernel::class);
$app->singleton(ConsoleKernel::class, Illuminate\Foundation\Console\Kernel::class);
$app->singleton(ExceptionHandler::class, Illuminate\Foundation\Exceptions\Handler::class);

$app->afterBootstrapping(LoadConfiguration::class, static function (Application $app): void {
    $app->make('config')->set('app.providers', [
        Illuminate\Bus\BusServiceProvider::class,
        Illuminate\Cache\CacheServiceProvider::class,
        Illuminate\Cookie\CookieServiceProvider::class,
        Illuminate\Database\DatabaseServiceProvider::class,
        Illuminate\Encryption\EncryptionServiceProvider::class,
        Illuminate\Filesystem\FilesystemServiceProvider::class,
        Illuminate\Foundation\Providers\ConsoleSupportServiceProvider::class,
        Illuminate\Foundation\Providers\FoundationServiceProvider::class,
        Illuminate\Queue\QueueServiceProvider::class,
        Illuminate\Session\SessionServiceProvider::class,
        Illuminate\Translation\TranslationServiceProvider::class,
        Illuminate\View\ViewServiceProvider::class,
        ...require __DIR__ . '/providers.php',
    ]);
});
$app->booted(static function (): void {
    Route::middlewareGroup('web', [
        Illuminate\Cookie\Middleware\EncryptCookies::class,
        Illuminate\Cookie\Middleware\AddQueuedCookiesToResponse::class,
        Illuminate\Session\Middleware\StartSession::class,
        Illuminate\Foundation\Http\Middleware\VerifyCsrfToken::class,
        Illuminate\Routing\Middleware\SubstituteBindings::class,
    ]);
    Route::middleware('web')->group(base_path('routes/web.php'));
});

return $app;
