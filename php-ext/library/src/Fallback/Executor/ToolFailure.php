<?php

declare(strict_types=1);

namespace Pillion\Fallback\Executor;

use Pillion\Exception\PillionException;
use Pillion\Exception\RateLimitedException;
use Pillion\Fallback\Argument;
use Pillion\Fallback\Failure;
use Pillion\ToolCall;
use Pillion\ToolResult;

/**
 * An exception that ends a single call with a failure.
 *
 * @internal
 */
final class ToolFailure extends \Exception
{
    /** @param array<string, mixed> $metadata */
    public function __construct(
        public readonly string $errorCode,
        string $message,
        public readonly mixed $result = null,
        public readonly array $metadata = [],
    ) {
        parent::__construct($message);
    }

    /** Returns the result of a call that did not run. */
    public function toResult(ToolCall $call): ToolResult
    {
        $metadata = ['execution_time' => 0.0] + $this->metadata;
        return new ToolResult($call->id, $call->name, $this->result, false, $this->getMessage(), $this->errorCode, metadata: $metadata);
    }

    /** Returns the failure of a call whose PHP code, such as the tool, threw `$exception`. */
    public static function fromThrowable(\Throwable $exception): self
    {
        if ($exception instanceof self) {
            return $exception;
        }
        $exceptionCode = $exception instanceof PillionException ? $exception->errorCode : null;
        $retryAfter = $exception instanceof RateLimitedException ? $exception->retryAfter : null;
        return new self(
            Failure::toKnownCode($exceptionCode),
            Argument::escapeInvalidUtf8($exception->getMessage()),
            metadata: $retryAfter === null ? [] : ['retry_after' => (int) ceil($retryAfter)],
        );
    }
}
