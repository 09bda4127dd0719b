<?php

declare(strict_types=1);

namespace Pillion\Fallback;

/**
 * A line of PHP's error log. Texts of servers must not forge other lines or control a terminal:
 * control and format characters are written as in JSON, such as `\u001b`.
 *
 * @internal
 */
final class LogLine
{
    private const HIDDEN = '/[\x{0}-\x{1f}\x{7f}-\x{9f}\p{Cf}\x{2028}\x{2029}]/u';

    public static function write(string $line): void
    {
        error_log(self::escape($line));
    }

    public static function escape(string $line): string
    {
        if (preg_match('//u', $line) !== 1) {
            $escapeByte = static fn (array $found): string => sprintf('\x%02x', ord($found[0]));
            return (string) preg_replace_callback('/[\x00-\x1f\x7f-\xff]/', $escapeByte, $line);
        }
        return (string) preg_replace_callback(self::HIDDEN, static function (array $found): string {
            return $found[0] === "\x7f" ? '\u007f' : substr((string) json_encode($found[0]), 1, -1);
        }, $line);
    }
}
