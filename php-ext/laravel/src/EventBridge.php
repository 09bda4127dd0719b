<?php

declare(strict_types=1);

namespace Pillion\Laravel;

use Illuminate\Container\Container;
use Psr\EventDispatcher\EventDispatcherInterface;

/** Dispatches the engine's PSR-14 events as Laravel events: `Event::listen(ToolCallFinished::class, ...)`. */
final class EventBridge implements EventDispatcherInterface
{
    public function dispatch(object $event): object
    {
        // The dispatcher is resolved from the current container for each event, because Octane
        // replaces the container for each request.
        Container::getInstance()->make('events')->dispatch($event);
        return $event;
    }
}
