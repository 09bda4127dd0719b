<?php

declare(strict_types=1);

namespace Pillion\Tests\Support;

use PHPUnit\Framework\Assert;

final class Expect
{
    /**
     * Returns the exception that a call throws. Fails the test if it throws none, or one whose message does
     * not contain the expected text.
     *
     * @template T of \Throwable
     *
     * @param class-string<T> $class
     *
     * @return T
     */
    public static function exception(string $class, \Closure $call, string $message = '', string $failure = ''): \Throwable
    {
        try {
            $call();
        } catch (\Throwable $exception) {
            $exception instanceof $class || throw $exception;
            Assert::assertStringContainsString($message, $exception->getMessage());
            return $exception;
        }
        Assert::fail($failure === '' ? "No $class was thrown" : $failure);
    }
}
