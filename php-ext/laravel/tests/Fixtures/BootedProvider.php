<?php

declare(strict_types=1);

namespace Pillion\Laravel\Tests\Fixtures;

use Illuminate\Container\Container;
use Illuminate\Support\ServiceProvider;
use Pillion\Laravel\Facades\Pillion;
use Pillion\ToolDefinition;
use Pillion\ToolRegistry;

/** A service provider of an application that configures everything in boot(). */
final class BootedProvider extends ServiceProvider
{
    public function boot(): void
    {
        $this->app->make(ToolRegistry::class)->register(new ToolDefinition('at_boot', 'A test'), fn () => 'here');
        Pillion::resolveUserUsing(function (): ?string {
            $id = Container::getInstance()->make('auth')->id();
            return $id === null ? null : "key-of-$id";
        });
        Pillion::resolveTenantUsing(fn () => 'acme');
    }
}
