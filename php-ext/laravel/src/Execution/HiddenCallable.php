<?php

declare(strict_types=1);

namespace Pillion\Laravel\Execution;

use SensitiveParameterValue;

/**
 * Wraps a callable, so that dumps of the object that holds the wrapper do not show the callable's
 * captured values.
 */
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
