<?php

declare(strict_types=1);

namespace Pillion\Tests;

use Pillion\Exception\ApprovalRequiredException;
use Pillion\Exception\CancelledException;
use Pillion\Exception\DeniedException;
use Pillion\Exception\InvalidInputException;
use Pillion\Exception\JsonRpcException;
use Pillion\Exception\NotFoundException;
use Pillion\Exception\PillionException;
use Pillion\Exception\RateLimitedException;
use Pillion\Exception\TimeoutException;
use Pillion\Exception\TransportException;
use Pillion\Exception\UnavailableException;
use Pillion\Tests\Support\Expect;
use Pillion\ToolDefinition;
use Pillion\ToolRegistry;
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
        self::assertSame('unavailable', $exception->errorCode);
        self::assertSame('internal_error', (new PillionException())->errorCode);
        self::assertNull($exception->httpStatus);
        self::assertSame(-1, (new JsonRpcException())->rpcCode);
        self::assertNull((new RateLimitedException())->retryAfter);
    }

    public function testC5TheExceptionOfAToolSelectsTheErrorCode(): void
    {
        $thrown = [
            'not_found' => new NotFoundException('x'),
            'invalid_input' => new InvalidInputException('x'),
            'rate_limited' => new RateLimitedException('x'),
            'timeout' => new TimeoutException('x'),
            'unavailable' => new UnavailableException('x'),
            'denied' => new DeniedException('x'),
            'cancelled' => new CancelledException('x'),
            'approval_required' => new ApprovalRequiredException('x'),
            'internal_error' => new JsonRpcException('x'),
        ];
        $thrown['rate_limited']->retryAfter = 2.4;
        foreach ($thrown as $code => $exception) {
            $registry = new ToolRegistry();
            $registry->register(new ToolDefinition('a', 'A test'), fn () => throw $exception);
            $result = $registry->execute('a', [], 'c');
            self::assertSame([$code, 'x'], [$result->errorCode, $result->error]);
            self::assertSame($code === 'rate_limited' ? 3 : null, $result->metadata['retry_after'] ?? null);
        }
    }

    public function testFileLineAndTraceBelongToTheCaller(): void
    {
        $e = Expect::exception(PillionException::class, fn () => new ToolDefinition('9x', 'd'));
        self::assertSame([__FILE__, __LINE__ - 1], [$e->getFile(), $e->getLine()]);
        self::assertSame('__construct', $e->getTrace()[0]['function']);
    }

    public function testPropertiesAreTyped(): void
    {
        $exception = new PillionException();
        Expect::exception(\TypeError::class, fn () => $exception->errorCode = []);
    }
}
