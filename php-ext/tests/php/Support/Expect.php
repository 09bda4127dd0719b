<?php

declare(strict_types=1);

namespace Pillion\Tests\Support;

use PHPUnit\Framework\Assert;

final class Expect
{
    /**
     * Returns the exception that a call throws, and fails the test if it throws none.
     *
     * @template T of \Throwable
     *
     * @param class-string<T> $class
     *
     * @return T
     */
    public static function exception(string $class, \Closure $call, string $failure = ''): \Throwable
    {
        try {
            $call();
        } catch (\Throwable $exception) {
            return $exception instanceof $class ? $exception : throw $exception;
        }
        Assert::fail($failure === '' ? "No $class was thrown" : $failure);
    }
}
