<?php

declare(strict_types=1);

namespace Pillion\Tests;

use Pillion\Tests\Support\Process;
use PHPUnit\Framework\TestCase;

/**
 * The stubs describe exactly the extension.
 *
 * @group extension
 */
final class StubTest extends TestCase
{
    private const STUBS = __DIR__ . '/../../stubs';

    public function testTheStubsMatchTheExtension(): void
    {
        $describe = __DIR__ . '/Support/describe.php';
        $extension = Process::run([PHP_BINARY, '-n', '-d', 'extension=' . getenv('PILLION_EXTENSION'), $describe]);
        $stub = Process::run([PHP_BINARY, '-n', $describe, self::STUBS]);
        self::assertSame(['', 0, '', 0], [$extension['errors'], $extension['exit'], $stub['errors'], $stub['exit']]);
        $expected = json_decode($extension['output'], true, flags: JSON_THROW_ON_ERROR);
        $actual = json_decode($stub['output'], true, flags: JSON_THROW_ON_ERROR);
        self::assertNotEmpty($expected);
        self::assertSame(array_keys($expected), array_keys($actual));
        foreach ($expected as $class => $description) {
            self::assertSame($description, $actual[$class], $class);
        }
    }

    public function testEveryClassAndEveryThrowIsDocumented(): void
    {
        $files = [...glob(self::STUBS . '/Pillion/*.php'), ...glob(self::STUBS . '/Pillion/*/*.php')];
        self::assertGreaterThan(20, count($files));
        foreach ($files as $file) {
            $stub = (string) file_get_contents($file);
            preg_match_all('/@throws (?:Exception\\\\)?(\w+)/', $stub, $thrown);
            foreach (array_unique($thrown[1]) as $class) {
                self::assertTrue(is_a("Pillion\\Exception\\$class", \Pillion\Exception\PillionException::class, true), $class);
            }
            self::assertMatchesRegularExpression('~^<\?php\n\nnamespace Pillion[\w\\\\]*;\n\n/\*\*.*?\*/\n(#\[[^\n]*\]\n)?(abstract |final )*(class|interface|enum) ' . basename($file, '.php') . '\b~s', $stub, $file);
        }
    }
}
