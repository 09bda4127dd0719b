<?php

declare(strict_types=1);

namespace Pillion\Tests;

use Pillion\Exception\JsonRpcException;
use Pillion\Exception\PillionException;
use Pillion\Exception\RateLimitedException;
use Pillion\Exception\TransportException;
use Pillion\ToolDefinition;
use PHPUnit\Framework\TestCase;

final class ExceptionTest extends TestCase
{
    public function testTheTreeHasTwoLevels(): void
    {
        foreach (['InvalidInput', 'NotFound', 'RateLimited', 'Timeout', 'Unavailable', 'Transport', 'JsonRpc'] as $name) {
            $class = "Pillion\\Exception\\{$name}Exception";
            self::assertSame(PillionException::class, get_parent_class($class));
        }
        self::assertSame(\RuntimeException::class, get_parent_class(PillionException::class));
    }

    public function testApplicationsMayThrowThemToo(): void
    {
        $previous = new \LogicException('why');
        $exception = new TransportException('text', 5, $previous);
        self::assertSame(['text', 5, $previous], [$exception->getMessage(), $exception->getCode(), $exception->getPrevious()]);
        self::assertSame('internal_error', $exception->errorCode);
        self::assertNull($exception->httpStatus);
        self::assertSame(-1, (new JsonRpcException())->rpcCode);
        self::assertNull((new RateLimitedException())->retryAfter);
    }

    public function testFileLineAndTraceAreThoseOfTheCaller(): void
    {
        try {
            new ToolDefinition('9x', 'd');
        } catch (PillionException $e) {
            self::assertSame([__FILE__, __LINE__ - 2], [$e->getFile(), $e->getLine()]);
            self::assertSame('__construct', $e->getTrace()[0]['function']);
            return;
        }
        self::fail('It was accepted');
    }

    public function testPropertiesAreTyped(): void
    {
        $exception = new PillionException();
        $this->expectException(\TypeError::class);
        $exception->errorCode = [];
    }
}
