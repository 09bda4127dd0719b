<?php

declare(strict_types=1);

namespace Pillion\Fallback;

/**
 * Validates arguments beyond PHP's own types.
 *
 * @internal
 */
final class Argument
{
    /**
     * Maximum duration in seconds: 136 years, below the range at which the engine's clocks
     * overflow.
     */
    private const MAX_SECONDS = 4294967295;

    public static function isUtf8(string $text): bool
    {
        return preg_match('//u', $text) === 1;
    }

    /** Returns the text with invalid UTF-8 bytes written as `\xE9`, so that no information is lost. */
    public static function makeLegible(string $text): string
    {
        if (self::isUtf8($text)) {
            return $text;
        }
        $valid = '[\x00-\x7f]|[\xc2-\xdf][\x80-\xbf]|\xe0[\xa0-\xbf][\x80-\xbf]|[\xe1-\xec\xee\xef][\x80-\xbf]{2}'
            . '|\xed[\x80-\x9f][\x80-\xbf]|\xf0[\x90-\xbf][\x80-\xbf]{2}|[\xf1-\xf3][\x80-\xbf]{3}|\xf4[\x80-\x8f][\x80-\xbf]{2}';
        return (string) preg_replace_callback(
            "/$valid|./s",
            static fn (array $found): string => self::isUtf8($found[0]) ? $found[0] : sprintf('\x%02X', ord($found[0])),
            $text,
        );
    }

    public static function isBlank(string $text): bool
    {
        return preg_match('/^[\s\p{Z}\x{85}]*$/u', $text) === 1;
    }

    /**
     * @param array<int, ?string> $texts keyed by argument number
     *
     * @throws \Pillion\Exception\InvalidInputException when a text is not valid UTF-8
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
     * Validates a duration: not negative, and at most {@see self::MAX_SECONDS}.
     *
     * @throws \Pillion\Exception\InvalidInputException
     */
    public static function seconds(string $name, int|float $seconds): float
    {
        $seconds = (float) $seconds;
        // The condition is also false for NAN.
        if (!($seconds >= 0 && $seconds <= self::MAX_SECONDS)) {
            throw Failure::invalidInput("$name must be a number of seconds, not negative and at most " . self::MAX_SECONDS);
        }
        return $seconds;
    }
}
