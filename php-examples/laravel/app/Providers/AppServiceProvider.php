<?php

declare(strict_types=1);

namespace App\Providers;

use App\Chat\LanguageModel;
use Illuminate\Contracts\Foundation\Application;
use Illuminate\Support\Facades\Route;
use Illuminate\Support\ServiceProvider;
use Pillion\Laravel\Facades\Pillion;

class AppServiceProvider extends ServiceProvider
{
    public function register(): void
    {
        $this->app->bind(LanguageModel::class, fn (Application $app) => new LanguageModel(
            $app['config']['llm.url'],
            $app['config']['llm.key'],
        ));
    }

    public function boot(): void
    {
        // This application has no log-in: a visitor is a session.
        Pillion::resolveUserUsing(fn () => app()->bound('session') ? session()->getId() : null);
        Route::middleware('web')->group(base_path('routes/web.php'));
    }
}
