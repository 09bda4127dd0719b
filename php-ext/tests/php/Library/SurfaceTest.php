<?php

declare(strict_types=1);

namespace Pillion\Tests\Library;

use Pillion\Tests\Support\Process;
use PHPUnit\Framework\TestCase;

/**
 * The library has the classes of the extension, as described by the stubs.
 *
 * @group library
 */
final class SurfaceTest extends TestCase
{
    /**
     * What the library lacks, as `Class` or `Class::method`, and why. An entry that exists in the
     * library, or that is missing in the stubs, fails the test.
     */
    private const LACKS = [
        'Pillion\ToolStream::__destruct' => 'the call runs when the result is requested, so no running call can be abandoned',
    ];

    public function testTheClassesMatchTheStubs(): void
    {
        $stubs = self::describe(__DIR__ . '/../../../stubs');
        $library = self::describe(__DIR__ . '/../../../library/src', 'Pillion\\');
        // A worker is plain PHP even with the extension.
        $library = array_filter($library, fn (string $class) => preg_match('/^Pillion\\\\(Fallback\\\\|Worker\b)/', $class) !== 1, ARRAY_FILTER_USE_KEY);
        self::assertGreaterThan(20, count($stubs));
        $lacks = [];
        foreach ($stubs as $class => $stub) {
            if (!isset($library[$class])) {
                $lacks[] = $class;
                continue;
            }
            foreach (array_diff_key($stub['methods'], $library[$class]['methods']) as $method => $description) {
                $lacks[] = "$class::$method";
                unset($stub['methods'][$method]);
            }
            self::assertSame($stub, $library[$class], $class);
        }
        self::assertSame(array_keys(self::LACKS), $lacks);
        self::assertSame([], array_keys(array_diff_key($library, $stubs)), 'classes that the extension does not have');
    }

    /** @return array<string, array<string, mixed>> without what is private */
    private static function describe(string $folder, string $prefix = ''): array
    {
        $ran = Process::run([PHP_BINARY, '-n', __DIR__ . '/../Support/describe.php', $folder, $prefix]);
        self::assertSame(['', 0], [$ran['errors'], $ran['exit']], $ran['output']);
        $isPublic = fn (array $member) => !str_contains($member['modifiers'], 'private');
        return array_map(
            fn (array $class) => [
                'constants' => $class['constants'],
                'properties' => array_filter($class['properties'], $isPublic),
                'methods' => array_filter($class['methods'], $isPublic),
            ] + $class,
            json_decode($ran['output'], true, flags: JSON_THROW_ON_ERROR),
        );
    }
}
