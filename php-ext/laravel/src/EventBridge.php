<?php

declare(strict_types=1);

namespace Pillion\Laravel;

use Illuminate\Container\Container;
use Psr\EventDispatcher\EventDispatcherInterface;

/** The engine's events (PSR-14) as events of Laravel: `Event::listen(ToolCallFinished::class, ...)`. */
final class EventBridge implements EventDispatcherInterface
{
    public function dispatch(object $event): object
    {
        // Octane swaps the container with each request: that of the moment has the listeners.
        Container::getInstance()->make('events')->dispatch($event);
        return $event;
    }
}
