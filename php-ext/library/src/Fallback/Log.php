<?php

declare(strict_types=1);

namespace Pillion\Fallback;

/**
 * Lines in PHP's error log, without arguments, results or credentials.
 *
 * @internal
 */
final class Log
{
    /** @param array<string, mixed> $facts */
    public static function error(string $message, array $facts): void
    {
        error_log("pillion: $message " . Json::encode($facts));
    }
}
