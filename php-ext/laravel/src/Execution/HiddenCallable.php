<?php

declare(strict_types=1);

namespace Pillion\Laravel\Execution;

use SensitiveParameterValue;

/** A callable that hides its contents from dumps of its owner. */
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
