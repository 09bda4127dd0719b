<?php

declare(strict_types=1);

namespace Pillion\Fallback;

/**
 * Formats a line of PHP's error log. Control and format characters become JSON escapes such as
 * `\u001b`, because text from servers must not forge log lines or control a terminal.
 *
 * @internal
 */
final class LogLine
{
    private const ESCAPED_CHARACTERS = '/[\x{0}-\x{1f}\x{7f}-\x{9f}\p{Cf}\x{2028}\x{2029}]/u';

    public static function write(string $line): void
    {
        error_log(self::escape($line));
    }

    public static function escape(string $line): string
    {
        if (preg_match('//u', $line) !== 1) {
            $escapeByte = static fn (array $matches): string => sprintf('\x%02x', ord($matches[0]));
            return (string) preg_replace_callback('/[\x00-\x1f\x7f-\xff]/', $escapeByte, $line);
        }
        return (string) preg_replace_callback(self::ESCAPED_CHARACTERS, static function (array $matches): string {
            return $matches[0] === "\x7f" ? '\u007f' : substr((string) json_encode($matches[0]), 1, -1);
        }, $line);
    }
}
