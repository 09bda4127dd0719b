<?php

declare(strict_types=1);

namespace Pillion\Tests;

use Pillion\Tests\Support\Examples;
use Pillion\Tests\Support\FakeLlm;
use Pillion\Tests\Support\McpServer;
use Pillion\Tests\Support\Process;
use Pillion\Tests\Support\SidecarProcess;
use PHPUnit\Framework\TestCase;

/**
 * Every example of docs/PHP.md runs and prints the documented output.
 *
 * @group extension
 */
final class DocsTest extends TestCase
{
    private const PAGE = __DIR__ . '/../../../docs/PHP.md';

    private static ?SidecarProcess $sidecar = null;

    public static function tearDownAfterClass(): void
    {
        self::$sidecar?->stop();
    }

    /** @dataProvider examples */
    public function testAnExamplePrintsTheDocumentedOutput(string $code, string $printed): void
    {
        $code = str_replace('https://mcp.example.org/mcp', McpServer::url(), $code);
        if (str_contains($code, 'llm.example.org')) {
            $code = str_replace('https://llm.example.org/v1', FakeLlm::url(), $code);
        }
        if (str_contains($code, 'pillion.sock')) {
            self::$sidecar ??= new SidecarProcess([['label' => 'dice', 'url' => McpServer::url()]], FakeLlm::forSidecar() + ['PILLION__TOOLS__ROLL_DICE__REQUIRE_APPROVAL' => 'always']);
            $code = str_replace('/run/pillion/pillion.sock', self::$sidecar->socket, $code);
        }
        $ran = Process::php($code, ['-d', 'pillion.log_level=off']);
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
