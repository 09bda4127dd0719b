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
     * Maximum duration in seconds: about 136 years. Larger durations could overflow a clock of the
     * engine.
     */
    private const MAX_SECONDS = 4294967295;

    public static function isUtf8(string $text): bool
    {
        return preg_match('//u', $text) === 1;
    }

    /** Returns the text with invalid UTF-8 bytes written as `\xE9`, so that no information is lost. */
    public static function escapeInvalidUtf8(string $text): string
    {
        if (self::isUtf8($text)) {
            return $text;
        }
        $utf8Pattern = '[\x00-\x7f]|[\xc2-\xdf][\x80-\xbf]|\xe0[\xa0-\xbf][\x80-\xbf]|[\xe1-\xec\xee\xef][\x80-\xbf]{2}'
            . '|\xed[\x80-\x9f][\x80-\xbf]|\xf0[\x90-\xbf][\x80-\xbf]{2}|[\xf1-\xf3][\x80-\xbf]{3}|\xf4[\x80-\x8f][\x80-\xbf]{2}';
        return (string) preg_replace_callback(
            "/$utf8Pattern|./s",
            static fn (array $matches): string => self::isUtf8($matches[0]) ? $matches[0] : sprintf('\x%02X', ord($matches[0])),
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
    public static function checkTexts(array $texts): void
    {
        foreach ($texts as $position => $text) {
            if ($text !== null && !self::isUtf8($text)) {
                throw Failure::invalidInput("Argument #$position is not valid UTF-8");
            }
        }
    }

    /**
     * Validates a duration: not negative, and at most {@see self::MAX_SECONDS}.
     *
     * @throws \Pillion\Exception\InvalidInputException
     */
    public static function checkSeconds(string $name, int|float $seconds): float
    {
        $duration = (float) $seconds;
        // The condition is negated so that it also rejects NAN.
        if (!($duration >= 0 && $duration <= self::MAX_SECONDS)) {
            throw Failure::invalidInput("$name must be a number of seconds from 0 to " . self::MAX_SECONDS);
        }
        return $duration;
    }
}
