<?php

declare(strict_types=1);

namespace Pillion\Tests;

use Pillion\Tests\Support\FakeServer;
use Pillion\Tests\Support\Process;
use Pillion\Tests\Support\SidecarProcess;
use PHPUnit\Framework\TestCase;

/**
 * Every example of docs/PHP.md runs and prints what the page says.
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
    public function testAnExamplePrintsWhatThePageSays(string $code, string $printed): void
    {
        $code = str_replace('https://mcp.example.org/sse', FakeServer::url(), $code);
        if (str_contains($code, 'pillion.sock')) {
            self::$sidecar ??= new SidecarProcess();
            $code = str_replace('/run/pillion/pillion.sock', self::$sidecar->socket, $code);
        }
        $ran = Process::php($code, ['-d', 'pillion.log_level=off']);
        self::assertSame(['', $printed, 0], [$ran['errors'], $ran['output'], $ran['exit']]);
    }

    public function examples(): iterable
    {
        preg_match_all('/^## (.+?)$|^```php\n(.*?)^```\n^```text\n(.*?)^```$/ms', (string) file_get_contents(self::PAGE), $found, PREG_SET_ORDER);
        $section = '';
        foreach ($found as $match) {
            if ($match[1] !== '') {
                $section = $match[1];
            } else {
                yield $section => [$match[2], $match[3]];
            }
        }
    }

    public function testEveryExampleIsChecked(): void
    {
        $page = (string) file_get_contents(self::PAGE);
        self::assertSame(preg_match_all('/^```php$/m', $page), count(iterator_to_array($this->examples())));
    }
}
