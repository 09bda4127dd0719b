<?php

declare(strict_types=1);

namespace Pillion\Laravel\Tests;

use Pillion\Laravel\Servers\ClientLog;

/** Texts of servers in the application's log. */
final class LogTest extends TestCase
{
    public function test_no_text_of_a_server_forges_a_line(): void
    {
        $file = (string) tempnam(sys_get_temp_dir(), 'log');
        $this->app['config']->set('logging.channels.file', ['driver' => 'single', 'path' => $file]);
        $log = new ClientLog($this->app->make('log')->channel('file'));
        foreach (["x\n[2026-01-01 00:00:00] local.INFO: forged", "x\r\nforged", "x\u{1b}[2J\u{9b}", "x\u{202e}\u{2028}"] as $text) {
            $log->log('warning', "Message $text", ['error' => $text, 'nested' => ['text' => $text], 'count' => 3]);
        }
        $written = (string) file_get_contents($file);
        unlink($file);
        $lines = explode("\n", rtrim($written, "\n"));
        self::assertCount(4, $lines, $written);
        foreach ($lines as $line) {
            self::assertMatchesRegularExpression('/^\[[^\]]+\] \w+\.WARNING: Message x/', $line);
            self::assertDoesNotMatchRegularExpression('/[\x{0}-\x{1f}\x{7f}-\x{9f}\x{2028}\x{202e}]/u', $line);
            self::assertStringContainsString('"count":3', $line);
        }
    }
}
