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
 * Every example of these pages runs and prints what the page says.
 *
 * @group extension
 */
final class DocsTest extends TestCase
{
    private const DOCS = __DIR__ . '/../../../docs/';

    private const PAGES = [
        'how-to/approvals-in-php.md',
        'how-to/call-mcp-servers-from-php.md',
        'how-to/chats-in-php.md',
        'how-to/run-calls-in-php.md',
        'how-to/sidecar-from-php.md',
        'how-to/tools-for-a-model.md',
        'how-to/tools-in-php.md',
        'how-to/your-own-model-client.md',
        'reference/php-classes.md',
        'reference/php-exceptions.md',
        'reference/php-mcp-clients.md',
    ];

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
        foreach (self::PAGES as $page) {
            foreach ((new Examples(self::DOCS . $page))->all() as $section => $example) {
                yield "$page: $section" => $example;
            }
        }
    }

    public function testEveryExampleIsChecked(): void
    {
        foreach (self::PAGES as $page) {
            $examples = new Examples(self::DOCS . $page);
            self::assertNotSame(0, $examples->blocks(), $page);
            self::assertCount($examples->blocks(), iterator_to_array($examples->all(), false), $page);
        }
    }

    public function testEveryPageWithExamplesIsChecked(): void
    {
        $pages = [];
        foreach (glob(self::DOCS . '{how-to,reference,explanation}/*.md', GLOB_BRACE) as $path) {
            if (iterator_to_array((new Examples($path))->all(), false) !== []) {
                $pages[] = substr($path, strlen(self::DOCS));
            }
        }
        self::assertEqualsCanonicalizing(self::PAGES, $pages);
    }
}
