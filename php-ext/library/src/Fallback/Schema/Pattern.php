<?php

declare(strict_types=1);

namespace Pillion\Fallback\Schema;

/**
 * Evaluates the regular expressions of schemas with PCRE, subject to PCRE's backtracking limit.
 *
 * @internal
 */
final class Pattern
{
    private const DELIMITER = "\x01";

    public static function isValid(string $pattern): bool
    {
        return !str_contains($pattern, self::DELIMITER) && !str_contains($pattern, "\0") && @preg_match(self::of($pattern), '') !== false;
    }

    public static function matches(string $pattern, string $text): bool
    {
        return @preg_match(self::of($pattern), $text) === 1;
    }

    private static function of(string $pattern): string
    {
        return self::DELIMITER . $pattern . self::DELIMITER . 'uD';
    }
}
