<?php

declare(strict_types=1);

namespace Pillion\Tests\Library;

use Pillion\Fallback\LogLine;
use PHPUnit\Framework\TestCase;

/**
 * Lines of PHP's error log.
 *
 * @group library
 */
final class LogLineTest extends TestCase
{
    /** @return iterable<string, array{string, string}> */
    public static function hostileTexts(): iterable
    {
        foreach ([
            ["a\nforged", 'a\nforged'],
            ["a\r\n\tb", 'a\r\n\tb'],
            ["a\x1b[2J\x7f\x00b", 'a\u001b[2J\u007f\u0000b'],
            ["a\u{9b}2J\u{85}b", 'a\u009b2J\u0085b'],
            ["a\u{2028}b\u{2029}", 'a\u2028b\u2029'],
            ["a\u{202e}b\u{2066}", 'a\u202eb\u2066'],
            ["a\u{e0041}b", 'a\udb40\udc41b'],
            ["a\xff\nb", 'a\xff\x0ab'],
            ['Größe 👩 "x" \n', 'Größe 👩 "x" \n'],
        ] as [$text, $line]) {
            yield bin2hex($text) => [$text, $line];
        }
    }

    /** @dataProvider hostileTexts */
    public function testNoTextBreaksItsLine(string $text, string $line): void
    {
        self::assertSame($line, LogLine::escape($text));
    }

    public function testTheErrorLogGetsOneLine(): void
    {
        $file = (string) tempnam(sys_get_temp_dir(), 'log');
        $before = ini_set('error_log', $file);
        LogLine::write("pillion: x\n[27-Nov-2026 00:00:00 UTC] forged\u{1b}");
        ini_set('error_log', (string) $before);
        $log = (string) file_get_contents($file);
        unlink($file);
        self::assertSame(1, substr_count($log, "\n"));
        self::assertStringEndsWith('pillion: x\n[27-Nov-2026 00:00:00 UTC] forged\u001b' . "\n", $log);
    }
}
