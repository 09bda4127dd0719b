<?php

declare(strict_types=1);

namespace Pillion\Tests;

use Pillion\Tests\Support\Process;
use PHPUnit\Framework\TestCase;

/**
 * The library declares exactly the classes of the extension, so its sources describe the extension to editors.
 *
 * @group extension
 */
final class SurfaceTest extends TestCase
{
    private const LIBRARY = __DIR__ . '/../../library/src';

    /**
     * What the library lacks, as `Class` or `Class::method`, and why. An entry that exists in the
     * library, or that is missing in the extension, fails the test.
     */
    private const LACKS = [
        'Pillion\ToolStream::__destruct' => 'the call runs when the result is requested, so no running call can be abandoned',
    ];

    public function testTheLibraryDeclaresTheClassesOfTheExtension(): void
    {
        $extension = self::describe(['-d', 'extension=' . getenv('PILLION_EXTENSION')]);
        $library = self::describe([], self::LIBRARY);
        // A worker is plain PHP even with the extension.
        $library = array_filter($library, fn (string $class) => preg_match('/^Pillion\\\\(Fallback\\\\|Worker\b)/', $class) !== 1, ARRAY_FILTER_USE_KEY);
        self::assertGreaterThan(20, count($extension));
        $lacks = [];
        foreach ($extension as $class => $description) {
            if (!isset($library[$class])) {
                $lacks[] = $class;
                continue;
            }
            foreach (array_keys(array_diff_key($description['methods'], $library[$class]['methods'])) as $method) {
                $lacks[] = "$class::$method";
                unset($description['methods'][$method]);
            }
            self::assertSame($description, $library[$class], $class);
        }
        self::assertSame(array_keys(self::LACKS), $lacks);
        self::assertSame([], array_keys(array_diff_key($library, $extension)), 'classes that the extension does not have');
    }

    public function testEveryClassAndEveryThrowIsDocumented(): void
    {
        $traits = [self::LIBRARY . '/Fallback/ClientHooks.php', self::LIBRARY . '/Fallback/RunsInSidecar.php'];
        $classes = [...glob(self::LIBRARY . '/*.php'), ...glob(self::LIBRARY . '/{Event,Exception}/*.php', GLOB_BRACE)];
        $files = [...array_diff($classes, [self::LIBRARY . '/Worker.php']), ...$traits];
        self::assertGreaterThan(20, count($files));
        foreach ($files as $file) {
            $source = (string) file_get_contents($file);
            preg_match_all('/@throws (?:(?:\\\\Pillion\\\\)?Exception\\\\)?(\w+)/', $source, $thrown);
            foreach (array_unique($thrown[1]) as $class) {
                self::assertTrue(is_a("Pillion\\Exception\\$class", \Pillion\Exception\PillionException::class, true), "$file: $class");
            }
            self::assertMatchesRegularExpression('~^<\?php\n\ndeclare\(strict_types=1\);\n\nnamespace Pillion[\w\\\\]*;\n\n(use [^\n]*;\n)*\n?/\*\*.*?\*/\n(#\[[^\n]*\]\n)?(abstract |final )*(class|interface|enum|trait) ' . basename($file, '.php') . '\b~s', $source, $file);
        }
    }

    /**
     * @param list<string> $options for the PHP command
     *
     * @return array<string, array<string, mixed>>
     */
    private static function describe(array $options, string ...$arguments): array
    {
        $ran = Process::run([PHP_BINARY, '-n', ...$options, __DIR__ . '/Support/describe.php', ...$arguments]);
        self::assertSame(['', 0], [$ran['errors'], $ran['exit']], $ran['output']);
        return json_decode($ran['output'], true, flags: JSON_THROW_ON_ERROR);
    }
}
