<?php

declare(strict_types=1);

namespace Pillion\Laravel\Console;

use Symfony\Component\Console\Formatter\OutputFormatter;

/**
 * Prepares untrusted text (from models, servers, users) for a terminal, so that the output shows
 * exactly the text. Console tags have no effect; characters that move the cursor, hide text or
 * change its direction become escapes such as `\u001b`, which JSON parsers read as the original
 * character.
 */
final class TerminalText
{
    private const INVISIBLE_CHARACTERS = '/[\x{0}-\x{1f}\x{7f}-\x{9f}\p{Cf}\x{2028}\x{2029}]/u';

    /** Returns the text on one line, for output with console tags. */
    public static function escapeLine(string $text): string
    {
        return OutputFormatter::escape(self::toVisibleLine($text));
    }

    /** Returns the text on one line, for output without console tags, such as a log. */
    public static function toVisibleLine(string $text): string
    {
        $utf8Text = preg_match('//u', $text) === 1 ? $text : mb_convert_encoding($text, 'UTF-8', 'ISO-8859-1');
        $escapeMatch = static fn (array $matches): string => self::escapeCharacter($matches[0]);
        return (string) preg_replace_callback(self::INVISIBLE_CHARACTERS, $escapeMatch, $utf8Text);
    }

    /** Returns the text with its line breaks, for output with console tags. */
    public static function escape(string $text): string
    {
        return implode("\n", array_map([self::class, 'escapeLine'], explode("\n", $text)));
    }

    /** @param int $flags flags of `json_encode()` */
    public static function encodeJson(mixed $value, int $flags = 0): string
    {
        return self::escape((string) json_encode($value, $flags | JSON_UNESCAPED_SLASHES | JSON_UNESCAPED_UNICODE));
    }

    private static function escapeCharacter(string $character): string
    {
        $codeUnits = bin2hex(mb_convert_encoding($character, 'UTF-16BE', 'UTF-8'));
        return '\\u' . implode('\\u', str_split($codeUnits, 4));
    }
}
