<?php

declare(strict_types=1);

namespace Pillion\Tests\Library;

use Pillion\Tests\Support\Examples;
use Pillion\Tests\Support\FakeServer;
use Pillion\Tests\Support\Process;
use PHPUnit\Framework\TestCase;

/**
 * Every example of the library's README runs and prints what it says.
 *
 * @group library
 */
final class ReadmeTest extends TestCase
{
    private const PAGE = __DIR__ . '/../../../library/README.md';

    /** @dataProvider examples */
    public function testAnExamplePrintsWhatThePageSays(string $code, string $printed): void
    {
        $code = str_replace('https://mcp.example.org/sse', FakeServer::url(), $code);
        $ran = Process::php($code);
        self::assertSame(['', $printed, 0], [$ran['errors'], $ran['output'], $ran['exit']]);
    }

    public function examples(): iterable
    {
        return (new Examples(self::PAGE))->all();
    }

    public function testEveryExampleIsChecked(): void
    {
        self::assertCount((new Examples(self::PAGE))->blocks(), iterator_to_array($this->examples(), false));
    }
}
