<?php

declare(strict_types=1);

namespace Pillion\Tests\Library;

use Pillion\Tests\Support\Examples;
use Pillion\Tests\Support\FakeLlm;
use Pillion\Tests\Support\McpServer;
use Pillion\Tests\Support\Process;
use Pillion\Tests\Support\SidecarProcess;
use PHPUnit\Framework\TestCase;

/**
 * Every example of the library's README runs and prints the documented output.
 *
 * @group library
 */
final class ReadmeTest extends TestCase
{
    private const PAGE = __DIR__ . '/../../../library/README.md';

    private static ?SidecarProcess $sidecar = null;

    public static function tearDownAfterClass(): void
    {
        self::$sidecar?->stop();
        self::$sidecar = null;
    }

    /** @dataProvider examples */
    public function testAnExamplePrintsTheDocumentedOutput(string $code, string $printed): void
    {
        if (str_contains($code, 'mcp.example.org') || str_contains($code, 'ToolAwareChat')) {
            self::$sidecar ??= new SidecarProcess([['label' => 'dice', 'url' => McpServer::url(), 'tool_prefix' => 'dice-']], FakeLlm::forSidecar());
            $code = str_replace('https://mcp.example.org/mcp', McpServer::url(), $code);
            $code = 'putenv(' . var_export('PILLION_SOCKET=' . self::$sidecar->socket, true) . ");\n$code";
        }
        $ran = Process::php($code);
        self::assertSame(['', $printed, 0], [$ran['errors'], $ran['output'], $ran['exit']]);
    }

    public static function examples(): iterable
    {
        return (new Examples(self::PAGE))->all();
    }

    public function testEveryExampleIsChecked(): void
    {
        self::assertCount((new Examples(self::PAGE))->blocks(), iterator_to_array($this->examples(), false));
    }
}
