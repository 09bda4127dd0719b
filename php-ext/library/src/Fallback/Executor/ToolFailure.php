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
    public static function of(\Throwable $thrown): self
    {
        if ($thrown instanceof self) {
            return $thrown;
        }
        $code = $thrown instanceof PillionException ? Failure::code($thrown->errorCode) : null;
        $wait = $thrown instanceof RateLimitedException ? $thrown->retryAfter : null;
        return new self(
            $code ?? 'internal_error',
            Argument::legible($thrown->getMessage()),
            metadata: $wait === null ? [] : ['retry_after' => (int) ceil($wait)],
        );
    }
}
