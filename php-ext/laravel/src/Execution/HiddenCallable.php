<?php

declare(strict_types=1);

namespace Pillion\Laravel\Execution;

use SensitiveParameterValue;

/** A callable out of which no dump of who holds it leads into the application. */
final class HiddenCallable
{
    private readonly SensitiveParameterValue $callable;

    public function __construct(callable $callable)
    {
        $this->callable = new SensitiveParameterValue($callable);
    }

    public function __invoke(mixed ...$arguments): mixed
    {
        return ($this->callable->getValue())(...$arguments);
    }
}
