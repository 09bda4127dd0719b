<?php

declare(strict_types=1);

namespace Pillion\Fallback;

/**
 * Checks of arguments that PHP's own types do not make.
 *
 * @internal
 */
final class Argument
{
    /** 2^64: more seconds than the engine's durations hold. */
    private const MOST_SECONDS = 18446744073709551616.0;

    public static function isUtf8(string $text): bool
    {
        return preg_match('//u', $text) === 1;
    }

    public static function isBlank(string $text): bool
    {
        return preg_match('/^[\s\p{Z}\x{85}]*$/u', $text) === 1;
    }

    /**
     * @param array<int, ?string> $texts by the number of the argument
     *
     * @throws \Pillion\Exception\InvalidInputException when one is not UTF-8
     */
    public static function texts(array $texts): void
    {
        foreach ($texts as $number => $text) {
            if ($text !== null && !self::isUtf8($text)) {
                throw Failure::invalidInput("Argument #$number is not valid UTF-8");
            }
        }
    }

    /**
     * A duration; an hour-long wait is fine, an endless one is not.
     *
     * @throws \Pillion\Exception\InvalidInputException
     */
    public static function seconds(string $name, int|float $seconds): float
    {
        $seconds = (float) $seconds;
        // NAN is neither.
        if (!($seconds >= 0 && $seconds < self::MOST_SECONDS)) {
            throw Failure::invalidInput("$name must be a number of seconds, not negative");
        }
        return $seconds;
    }
}
