<?php

declare(strict_types=1);

namespace Pillion\Fallback\Executor;

use Pillion\Exception\PillionException;
use Pillion\Exception\RateLimitedException;
use Pillion\Fallback\Argument;
use Pillion\Fallback\Failure;

/**
 * Ends a single call with a failure.
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

    /** Converts an exception that a tool threw. */
    public static function of(\Throwable $exception): self
    {
        if ($exception instanceof self) {
            return $exception;
        }
        $code = $exception instanceof PillionException ? Failure::code($exception->errorCode) : null;
        $retryAfter = $exception instanceof RateLimitedException ? $exception->retryAfter : null;
        return new self(
            $code ?? 'internal_error',
            Argument::makeLegible($exception->getMessage()),
            metadata: $retryAfter === null ? [] : ['retry_after' => (int) ceil($retryAfter)],
        );
    }
}
