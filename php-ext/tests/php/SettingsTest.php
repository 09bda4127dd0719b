<?php

declare(strict_types=1);

namespace Pillion\Tests;

use Pillion\Exception\TimeoutException;
use Pillion\Exception\TransportException;
use Pillion\MCPSSEClient;
use Pillion\Sidecar;
use Pillion\Tests\Support\Expect;
use Pillion\Tests\Support\FakeServer;
use Pillion\Tests\Support\Process;
use Pillion\Tests\Support\SidecarProcess;
use PHPUnit\Framework\TestCase;

/**
 * The ini settings, and their table in phpinfo.
 *
 * @group extension
 */
final class SettingsTest extends TestCase
{
    protected function tearDown(): void
    {
        ini_restore('pillion.timeout_ms');
        ini_restore('pillion.max_response_bytes');
    }

    /** @return array<string, array{string, string, string}> */
    public static function senseless(): array
    {
        return [
            'no number' => ['pillion.timeout_ms', 'soon', '0'],
            'a sign' => ['pillion.timeout_ms', '+5', '0'],
            'below zero' => ['pillion.session_idle_ms', '-1', '300000'],
            'too long' => ['pillion.timeout_ms', '2147483648', '0'],
            'an unknown suffix' => ['pillion.max_response_bytes', '16T', '0'],
            'only a suffix' => ['pillion.max_response_bytes', 'M', '0'],
            'too much' => ['pillion.max_response_bytes', '5G', '0'],
            'far too much' => ['pillion.max_response_bytes', '99999999999999999999G', '0'],
            'no session at all' => ['pillion.max_sessions', '0', '64'],
            'no level' => ['pillion.log_level', 'loud', 'warning'],
        ];
    }

    /** @dataProvider senseless */
    public function testInvalidSettingsAreRejectedAndLogged(string $setting, string $value, string $default): void
    {
        $ran = Process::php("echo ini_get('$setting');", ['-d', "$setting=$value", '-d', 'log_errors=1', '-d', 'error_log=/dev/stderr']);
        self::assertSame([$default, 0], [$ran['output'], $ran['exit']]);
        self::assertStringContainsString('[pillion] [warning] Invalid setting ignored', $ran['errors']);
        self::assertStringContainsString("\"setting\":\"$setting\",\"value\":\"$value\"", $ran['errors']);
        self::assertSame(1, substr_count($ran['errors'], "\n"));
    }

    public function testIniSetReportsFailure(): void
    {
        self::assertFalse(ini_set('pillion.timeout_ms', 'soon'));
        self::assertFalse(ini_set('pillion.socket', "/a\0b"));
        self::assertFalse(ini_set('pillion.log_level', "\xff"));
        self::assertFalse(ini_set('pillion.max_sessions', '5'), 'belongs to the process');
        self::assertFalse(ini_set('pillion.session_idle_ms', '5'), 'belongs to the process');
        self::assertSame(['0', ''], [ini_get('pillion.timeout_ms'), ini_get('pillion.socket')]);
        foreach (['0', '1K', '2k', '3M', '1g', '4G', '123'] as $bytes) {
            self::assertNotFalse(ini_set('pillion.max_response_bytes', $bytes), $bytes);
        }
    }

    public function testTheTimeLimitAppliesToClientsWithoutTheirOwn(): void
    {
        ini_set('pillion.timeout_ms', '200');
        $hurried = new MCPSSEClient(FakeServer::url());
        $patient = new MCPSSEClient(FakeServer::url(), 20);
        ini_restore('pillion.timeout_ms');
        Expect::exception(TimeoutException::class, fn () => $hurried->callTool('slow', ['seconds' => 3]), '0.2');
        self::assertSame(['slept' => 0.5], $patient->callTool('slow', ['seconds' => 0.5]));
        self::assertSame(['slept' => 0.5], (new MCPSSEClient(FakeServer::url(), apiKey: 'named'))->callTool('slow', ['seconds' => 0.5]));
    }

    public function testTheTimeLimitAppliesToTheSidecar(): void
    {
        $silent = sys_get_temp_dir() . '/pillion-silent-' . bin2hex(random_bytes(6));
        $listener = stream_socket_server("unix://$silent");
        ini_set('pillion.timeout_ms', '200');
        try {
            Expect::exception(TimeoutException::class, fn () => (new Sidecar($silent))->callTool('calculator'), '0.2s');
        } finally {
            fclose($listener);
            unlink($silent);
        }
    }

    public function testTheSizeOfAResponseIsLimited(): void
    {
        ini_set('pillion.max_response_bytes', '20k');
        $limited = new MCPSSEClient(FakeServer::url());
        $free = new MCPSSEClient(FakeServer::url(), options: ['limits' => ['max_response_bytes' => 1 << 20, 'max_event_bytes' => 1 << 20]]);
        self::assertCount(100, $limited->callTool('big', ['items' => 100])['items']);
        self::assertCount(5000, $free->callTool('big', ['items' => 5000])['items']);
        $this->expectException(TransportException::class);
        $this->expectExceptionMessageMatches('/20480|limit|large|long/');
        $limited->callTool('big', ['items' => 5000]);
    }

    public function testTheSizeOfTheSidecarsResponseIsLimited(): void
    {
        $process = new SidecarProcess();
        ini_set('pillion.max_response_bytes', '100');
        $e = Expect::exception(TransportException::class, fn () => (new Sidecar($process->socket))->listTools());
        self::assertSame("The sidecar's response is longer than 100 bytes", $e->getMessage());
    }

    public function testThePhpinfoTable(): void
    {
        $url = FakeServer::url();
        $code = <<<PHP
            phpinfo(INFO_MODULES);
            foreach (['one', 'two', 'two'] as \$key) {
                (new Pillion\\MCPSSEClient('$url', apiKey: "secret-\$key"))->callTool('connection');
            }
            phpinfo(INFO_MODULES);
            PHP;
        $table = Process::php($code, ['-d', 'pillion.socket=/a.sock', '-d', 'pillion.max_sessions=7'])['output'];
        self::assertStringContainsString("\nPillion => enabled\nVersion => ", $table);
        self::assertStringContainsString('Thread safety => ' . (PHP_ZTS ? 'yes' : 'no'), $table);
        self::assertStringContainsString("Engine => not started in this process\nMCP sessions kept => none\n", $table);
        self::assertStringContainsString("Engine => running\nMCP sessions kept => 2 of 7\n", $table);
        self::assertStringContainsString("pillion.socket => /a.sock => /a.sock\n", $table);
        self::assertStringNotContainsString('secret', $table);
        $shown = Process::run([PHP_BINARY, '-n', '-d', 'extension=' . getenv('PILLION_EXTENSION'), '--ri', 'pillion']);
        self::assertSame([0, ''], [$shown['exit'], $shown['errors']]);
        self::assertStringContainsString('pillion.session_idle_ms => 300000 => 300000', $shown['output']);
    }
}
