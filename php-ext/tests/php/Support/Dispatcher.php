<?php

declare(strict_types=1);

namespace Pillion\Tests\Support;

/** A PSR-14 dispatcher with at most one listener. */
final class Dispatcher
{
    /** @var list<object> */
    public array $events = [];

    /** @param ?\Closure(object): mixed $listener */
    public function __construct(private readonly ?\Closure $listener = null)
    {
    }

    public function dispatch(object $event): object
    {
        $this->events[] = $event;
        $this->listener?->__invoke($event);
        return $event;
    }

    /**
     * Returns the events of a class.
     *
     * @template T of object
     *
     * @param class-string<T> $class
     *
     * @return list<T>
     */
    public function events(string $class): array
    {
        return array_values(array_filter($this->events, fn (object $event) => $event instanceof $class));
    }
}
