<?php

declare(strict_types=1);

namespace App\Providers;

use App\Chat\LanguageModel;
use App\Chat\Visitor;
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
        Pillion::resolveUserUsing(fn () => Visitor::id());
        Route::middleware('web')->group(base_path('routes/web.php'));
    }
}
