<?php

declare(strict_types=1);

namespace Pillion\Tests;

use Pillion\Tests\Support\FakeLlm;
use Pillion\Tests\Support\FakeServer;
use Pillion\Tests\Support\Process;
use Pillion\Tests\Support\SessionServer;
use Pillion\Tests\Support\SidecarProcess;
use PHPUnit\Framework\TestCase;

/**
 * Many calls in one process leak no memory, descriptors or threads.
 * PILLION_LEAK_CALLS=100000 sets the number of calls of each kind.
 *
 * @group leak
 * @group extension
 */
final class LeakTest extends TestCase
{
    private static SessionServer $sessions;

    private static SidecarProcess $sidecar;

    public static function setUpBeforeClass(): void
    {
        self::$sessions = new SessionServer();
        self::$sidecar = new SidecarProcess([], FakeLlm::forSidecar());
    }

    public static function tearDownAfterClass(): void
    {
        self::$sessions->stop();
        self::$sidecar->stop();
    }

    /** @return array<string, array{string, int}> */
    public static function kinds(): array
    {
        return [
            'mcp' => ['mcp', 3_000],
            'mcp failures' => ['mcp failures', 500],
            'mcp time limits' => ['mcp time limits', 300],
            'mcp users' => ['mcp users', 500],
            'mcp client' => ['mcp client', 500],
            'mcp registries' => ['mcp registries', 500],
            'tools' => ['tools', 10_000],
            'tool failures' => ['tool failures', 10_000],
            'cycles' => ['cycles', 10_000],
            'chats' => ['chats', 500],
            'chats in the sidecar' => ['chats in the sidecar', 500],
            'sidecar' => ['sidecar', 10_000],
            'sidecar failures' => ['sidecar failures', 3_000],
        ];
    }

    /** @dataProvider kinds */
    public function testNoMemoryLeaks(string $kind, int $calls): void
    {
        $calls = getenv('PILLION_LEAK_CALLS') ?: (string) $calls;
        $ran = Process::run([
            PHP_BINARY, '-n', '-d', 'extension=' . getenv('PILLION_EXTENSION'), '-d', 'pillion.log_level=off',
            '-d', 'pillion.max_sessions=8', '-d', 'memory_limit=256M', __DIR__ . '/Support/leak.php',
            $kind, $calls, FakeServer::url(), self::$sessions->url, self::$sidecar->socket, FakeLlm::url(),
        ]);
        self::assertSame(['', 0], [$ran['errors'], $ran['exit']], $ran['output']);
        $grown = json_decode($ran['output'], true, flags: JSON_THROW_ON_ERROR);
        self::assertLessThan(20_000, $grown['memory'], $ran['output']);
        // A leak of bytes per call would exceed this; caches and the allocator stay below.
        self::assertLessThan(6_000, $grown['resident_kb'], $ran['output']);
        // Sessions sometimes have a second connection, and idle threads end after a while.
        self::assertLessThanOrEqual(10, $grown['descriptors'], $ran['output']);
        self::assertLessThanOrEqual(10, $grown['threads'], $ran['output']);
    }
}
