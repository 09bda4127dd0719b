<?php

declare(strict_types=1);

namespace Pillion\Laravel\Tests\Support;

use Pillion\Exception\InvalidInputException;
use Pillion\Laravel\PillionServiceProvider;
use Pillion\Tests\Support\Expect;

/** Lets the service provider check a configuration. */
trait ChecksConfiguration
{
    /** @param array<string, mixed> $settings */
    protected function checks(array $settings): void
    {
        $this->register($settings);
        $this->addToAssertionCount(1);
    }

    /**
     * @param array<string, mixed> $settings
     * @param list<string>         $path
     */
    protected function assertRejected(array $settings, array $path, string $mistake): void
    {
        $e = Expect::exception(InvalidInputException::class, fn () => $this->register($settings), failure: implode('.', $path) . " was accepted: $mistake");
        self::assertStringContainsString('pillion.' . implode('.', $path), $e->getMessage(), $mistake);
    }

    /** @param array<string, mixed> $settings */
    protected function register(array $settings): void
    {
        $this->app->make('config')->set('pillion', $settings);
        (new PillionServiceProvider($this->app))->register();
    }
}
