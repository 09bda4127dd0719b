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
 * Creates Pillion's exceptions and sets their error codes.
 *
 * @internal
 */
final class Failure
{
    /** The exception for each error code that the engine defines; see docs/reference/errors.md. */
    private const EXCEPTION_CLASSES = [
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
        return self::withCallerTrace(new InvalidInputException($message), 'invalid_input');
    }

    /** Returns the exception for a peer that cannot be reached, closes the connection, or sends an invalid message. */
    public static function transport(string $message, ?int $httpStatus = null): TransportException
    {
        $exception = self::withCallerTrace(new TransportException($message), 'unavailable');
        $exception->httpStatus = $httpStatus;
        return $exception;
    }

    public static function connectionClosed(string $message): ConnectionClosedException
    {
        return self::withCallerTrace(new ConnectionClosedException($message), 'unavailable');
    }

    /** Returns the exception for a JSON-RPC error of the MCP server. */
    public static function rpc(int $rpcCode, string $message, string $errorCode): JsonRpcException
    {
        $exception = self::withCallerTrace(new JsonRpcException($message, $rpcCode), self::toKnownCode($errorCode));
        $exception->rpcCode = $rpcCode;
        return $exception;
    }

    public static function cancelled(CancellationToken $token): CancelledException
    {
        $readReason = \Closure::bind(static fn (CancellationToken $token): string => (string) $token->reason, null, CancellationToken::class);
        $reason = $readReason($token);
        return self::withCallerTrace(new CancelledException('The call was cancelled' . ($reason === '' ? '' : ": $reason")), 'cancelled');
    }

    public static function timeout(string $message): TimeoutException
    {
        return self::withCallerTrace(new TimeoutException($message), 'timeout');
    }

    public static function unavailable(string $message): UnavailableException
    {
        return self::withCallerTrace(new UnavailableException($message), 'unavailable');
    }

    /** Returns the exception for an error code. */
    public static function forCode(string $errorCode, string $message): PillionException
    {
        $knownCode = self::toKnownCode($errorCode);
        return self::withCallerTrace(new (self::EXCEPTION_CLASSES[$knownCode])($message), $knownCode);
    }

    /** Returns the exception for a failed result. */
    public static function forResult(ToolResult $result): PillionException
    {
        $errorCode = $result->errorCode ?? 'internal_error';
        $failure = self::forCode($errorCode, $result->error ?? 'The tool failed');
        // An unknown error code is kept, because applications may use their own error codes.
        $failure->errorCode = $errorCode;
        if ($failure instanceof RateLimitedException) {
            $retryAfter = $result->metadata['retry_after'] ?? null;
            $failure->retryAfter = is_int($retryAfter) || is_float($retryAfter) ? (float) $retryAfter : null;
        } elseif ($failure instanceof ApprovalRequiredException) {
            $approvalId = $result->metadata['approval_id'] ?? null;
            $arguments = $result->metadata['arguments'] ?? null;
            $failure->approvalId = is_string($approvalId) ? $approvalId : '';
            $failure->arguments = is_array($arguments) ? $arguments : [];
            $failure->toolName = $result->toolName;
        }
        return $failure;
    }

    /** Returns the error code if the engine defines it; otherwise `internal_error`. */
    public static function toKnownCode(?string $errorCode): string
    {
        return isset(self::EXCEPTION_CLASSES[$errorCode ?? '']) ? $errorCode : 'internal_error';
    }

    /**
     * Sets the error code. Changes the file, the line and the trace of the exception to those of
     * the code that called the library, as in exceptions of the extension.
     *
     * @template T of PillionException
     *
     * @param T $exception
     *
     * @return T
     */
    private static function withCallerTrace(PillionException $exception, string $errorCode): PillionException
    {
        $exception->errorCode = $errorCode;
        $libraryPath = dirname(__DIR__) . '/';
        $trace = $exception->getTrace();
        while (isset($trace[0]) && str_starts_with($trace[0]['file'] ?? $libraryPath, $libraryPath)) {
            array_shift($trace);
        }
        $properties = $trace === [] ? [] : ['file' => $trace[0]['file'], 'line' => $trace[0]['line'], 'trace' => $trace];
        foreach ($properties as $property => $value) {
            (new \ReflectionProperty(\Exception::class, $property))->setValue($exception, $value);
        }
        return $exception;
    }
}
