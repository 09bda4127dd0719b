<?php

declare(strict_types=1);

namespace Pillion\Fallback;

use Pillion\CancellationToken;
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
use Pillion\Fallback\Http\ConnectionClosedException;
use Pillion\ToolResult;

/**
 * Creates the exceptions with their error codes.
 *
 * @internal
 */
final class Failure
{
    /** The exception for each error code that the engine defines; see docs/reference/errors.md. */
    private const CLASSES = [
        'invalid_input' => InvalidInputException::class,
        'not_found' => NotFoundException::class,
        'rate_limited' => RateLimitedException::class,
        'timeout' => TimeoutException::class,
        'approval_required' => ApprovalRequiredException::class,
        'denied' => DeniedException::class,
        'unavailable' => UnavailableException::class,
        'cancelled' => CancelledException::class,
        'internal_error' => PillionException::class,
    ];

    public static function invalidInput(string $message): InvalidInputException
    {
        return self::atCaller(new InvalidInputException($message), 'invalid_input');
    }

    /** Returns the exception for a peer that cannot be reached, closes the connection, or sends an invalid message. */
    public static function transport(string $message, ?int $httpStatus = null): TransportException
    {
        $exception = self::atCaller(new TransportException($message), 'unavailable');
        $exception->httpStatus = $httpStatus;
        return $exception;
    }

    public static function connectionClosed(string $message): ConnectionClosedException
    {
        return self::atCaller(new ConnectionClosedException($message), 'unavailable');
    }

    /** Returns the exception for a JSON-RPC error of the MCP server. */
    public static function rpc(int $rpcCode, string $message, string $code): JsonRpcException
    {
        $exception = self::atCaller(new JsonRpcException($message, $rpcCode), self::knownCode($code));
        $exception->rpcCode = $rpcCode;
        return $exception;
    }

    public static function cancelled(CancellationToken $token): CancelledException
    {
        $reason = \Closure::bind(static fn (CancellationToken $token): string => (string) $token->reason, null, CancellationToken::class)($token);
        return self::atCaller(new CancelledException('The call was cancelled' . ($reason === '' ? '' : ": $reason")), 'cancelled');
    }

    public static function timeout(string $message): TimeoutException
    {
        return self::atCaller(new TimeoutException($message), 'timeout');
    }

    public static function unavailable(string $message): UnavailableException
    {
        return self::atCaller(new UnavailableException($message), 'unavailable');
    }

    /** Returns the exception for an error code. */
    public static function forCode(string $code, string $message): PillionException
    {
        $known = self::knownCode($code);
        return self::atCaller(new (self::CLASSES[$known])($message), $known);
    }

    /** Returns the exception for a failed result. */
    public static function forResult(ToolResult $result): PillionException
    {
        $code = $result->errorCode ?? 'internal_error';
        $failure = self::forCode($code, $result->error ?? 'The tool failed');
        // Applications may use their own error codes.
        $failure->errorCode = $code;
        if ($failure instanceof RateLimitedException) {
            $seconds = $result->metadata['retry_after'] ?? null;
            $failure->retryAfter = is_int($seconds) || is_float($seconds) ? (float) $seconds : null;
        } elseif ($failure instanceof ApprovalRequiredException) {
            $id = $result->metadata['approval_id'] ?? null;
            $arguments = $result->metadata['arguments'] ?? null;
            $failure->approvalId = is_string($id) ? $id : '';
            $failure->arguments = is_array($arguments) ? $arguments : [];
            $failure->toolName = $result->toolName;
        }
        return $failure;
    }

    /** Returns the error code if the engine defines it; otherwise `internal_error`. */
    public static function knownCode(?string $code): string
    {
        return isset(self::CLASSES[$code ?? '']) ? $code : 'internal_error';
    }

    /**
     * Sets the error code, and makes the exception point at the code that called the library, like exceptions
     * of the extension.
     *
     * @template T of PillionException
     *
     * @param T $exception
     *
     * @return T
     */
    private static function atCaller(PillionException $exception, string $code): PillionException
    {
        $exception->errorCode = $code;
        $library = dirname(__DIR__) . '/';
        $trace = $exception->getTrace();
        while (isset($trace[0]) && str_starts_with($trace[0]['file'] ?? $library, $library)) {
            array_shift($trace);
        }
        $properties = $trace === [] ? [] : ['file' => $trace[0]['file'], 'line' => $trace[0]['line'], 'trace' => $trace];
        foreach ($properties as $property => $value) {
            (new \ReflectionProperty(\Exception::class, $property))->setValue($exception, $value);
        }
        return $exception;
    }
}
