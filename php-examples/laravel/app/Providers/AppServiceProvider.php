<?php

declare(strict_types=1);

namespace App\Providers;

use App\Chat\Visitor;
use Illuminate\Support\ServiceProvider;
use Pillion\Laravel\Facades\Pillion;

class AppServiceProvider extends ServiceProvider
{
    public function boot(): void
    {
        Pillion::resolveUserUsing(fn () => Visitor::id());
    }
}
