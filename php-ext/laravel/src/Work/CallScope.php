<?php

declare(strict_types=1);

namespace Pillion\Laravel\Work;

use Illuminate\Container\Container;
use Illuminate\Contracts\Debug\ExceptionHandler;
use Illuminate\Support\Facades\Facade;
use Pillion\Exception\PillionException;
use Pillion\Laravel\Servers\OpenClients;
use Throwable;

/**
 * Resets the application after each call, as a queue worker does after each job, so that objects
 * and logins of one call are not visible to the next call.
 */
final class CallScope
{
    public function __construct(private readonly Container $app)
    {
    }

    public function end(?Throwable $exception): void
    {
        if ($exception !== null && !$exception instanceof PillionException) {
            $this->app->make(ExceptionHandler::class)->report($exception);
        }
        if ($this->app->resolved('db')) {
            $this->rollBackTransactions();
        }
        if ($this->app->resolved(OpenClients::class)) {
            $this->app->make(OpenClients::class)->disconnect();
        }
        if ($this->app->resolved('auth') && method_exists($this->app->make('auth'), 'forgetGuards')) {
            $this->app->make('auth')->forgetGuards();
        }
        $log = $this->app->make('log');
        foreach (['flushSharedContext', 'withoutContext'] as $method) {
            // The default channel is checked as well, because Laravel 8's log manager lacks
            // `flushSharedContext()` and `withoutContext()` and forwards calls of them to the
            // default channel.
            if (method_exists($log, $method) || method_exists($log->driver(), $method)) {
                $log->{$method}();
            }
        }
        if (method_exists($this->app, 'forgetScopedInstances')) {
            $this->app->forgetScopedInstances();
        }
        Facade::clearResolvedInstances();
    }

    /**
     * Rolls back open transactions. Laravel reopens a lost database connection itself, but not
     * inside a transaction.
     */
    private function rollBackTransactions(): void
    {
        $database = $this->app->make('db');
        foreach ($database->getConnections() as $name => $connection) {
            if ($connection->transactionLevel() > 0) {
                try {
                    $connection->rollBack(0);
                } catch (Throwable) {
                    $database->purge($name);
                }
            }
        }
    }
}
