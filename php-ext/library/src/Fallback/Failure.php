<?php

declare(strict_types=1);

namespace Pillion\Fallback;

use Pillion\Exception\InvalidInputException;
use Pillion\Exception\JsonRpcException;
use Pillion\Exception\NotFoundException;
use Pillion\Exception\PillionException;
use Pillion\Exception\RateLimitedException;
use Pillion\Exception\TimeoutException;
use Pillion\Exception\TransportException;
use Pillion\Exception\UnavailableException;

/**
 * Makes the exceptions, each with its error code.
 *
 * @internal
 */
final class Failure
{
    /** The codes of requirement C5. */
    public const CODES = [
        'invalid_input', 'not_found', 'rate_limited', 'timeout', 'approval_required', 'denied', 'unavailable',
        'cancelled', 'internal_error',
    ];

    public static function invalidInput(string $message): InvalidInputException
    {
        $exception = new InvalidInputException($message);
        $exception->errorCode = 'invalid_input';
        return $exception;
    }

    /** A peer cannot be reached, breaks off, or sends what makes no sense. */
    public static function transport(string $message, ?int $httpStatus = null): TransportException
    {
        $exception = new TransportException($message);
        $exception->errorCode = 'unavailable';
        $exception->httpStatus = $httpStatus;
        return $exception;
    }

    /** The MCP server answered with an error. */
    public static function rpc(int $rpcCode, string $message, string $code): JsonRpcException
    {
        $exception = new JsonRpcException($message, $rpcCode);
        $exception->rpcCode = $rpcCode;
        $exception->errorCode = self::code($code) ?? 'internal_error';
        return $exception;
    }

    public static function timeout(string $message): TimeoutException
    {
        $exception = new TimeoutException($message);
        $exception->errorCode = 'timeout';
        return $exception;
    }

    public static function unavailable(string $message): UnavailableException
    {
        $exception = new UnavailableException($message);
        $exception->errorCode = 'unavailable';
        return $exception;
    }

    /** The exception that fits an error code. */
    public static function ofCode(string $code, string $message): PillionException
    {
        $exception = match ($code) {
            'invalid_input' => new InvalidInputException($message),
            'not_found' => new NotFoundException($message),
            'rate_limited' => new RateLimitedException($message),
            'timeout' => new TimeoutException($message),
            'unavailable' => new UnavailableException($message),
            default => new PillionException($message),
        };
        $exception->errorCode = self::code($code) ?? 'internal_error';
        return $exception;
    }

    /** The error code of that name; another word says nothing. */
    public static function code(?string $name): ?string
    {
        return in_array($name, self::CODES, true) ? $name : null;
    }
}
