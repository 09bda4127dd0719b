<?php

declare(strict_types=1);

namespace Pillion\Laravel\Tests;

use PHPUnit\Framework\Attributes\DataProvider;
use PHPUnit\Framework\TestCase as PlainTestCase;
use ReflectionClass;
use ReflectionMethod;

/**
 * Checks the annotations of tests. PHPUnit 9 reads only doc comments, and PHPUnit 12 and later
 * only attributes; the suite runs on both.
 */
final class AnnotationsTest extends PlainTestCase
{
    /** The annotations that PHPUnit does not read; `dataProvider` has an attribute beside it. */
    private const ALLOWED = ['dataProvider', 'param', 'return', 'var', 'see', 'throws', 'internal'];

    public function test_every_data_provider_has_an_annotation_and_an_attribute(): void
    {
        $providers = [];
        foreach (self::testMethods() as $name => $method) {
            preg_match_all('/@dataProvider (\w+)/', (string) $method->getDocComment(), $annotations);
            $attributes = array_map(
                static fn ($attribute) => $attribute->getArguments()[0],
                $method->getAttributes(DataProvider::class),
            );
            self::assertSame($annotations[1], $attributes, "$name has a data provider that some versions of PHPUnit ignore");
            foreach ($attributes as $provider) {
                $providers[] = new ReflectionMethod($method->class, $provider);
            }
        }
        self::assertNotEmpty($providers);
        foreach ($providers as $provider) {
            self::assertTrue($provider->isStatic() && $provider->isPublic(), "$provider->class::$provider->name must be public and static");
        }
    }

    public function test_no_other_annotation_is_used(): void
    {
        foreach (self::testMethods() as $name => $method) {
            $comments = $method->getDocComment() . $method->getDeclaringClass()->getDocComment();
            preg_match_all('/^[\s\/*]*@(\w+)/m', $comments, $annotations);
            self::assertSame([], array_diff($annotations[1], self::ALLOWED), "$name has an annotation that PHPUnit 12 ignores");
        }
    }

    /** @return iterable<string, ReflectionMethod> */
    private static function testMethods(): iterable
    {
        $classes = ['Tests\\ChatTest' => __DIR__ . '/../../../php-examples/laravel/tests/ChatTest.php'];
        foreach (glob(__DIR__ . '/*Test.php') as $file) {
            $classes[__NAMESPACE__ . '\\' . basename($file, '.php')] = $file;
        }
        foreach ($classes as $class => $file) {
            require_once $file;
            foreach ((new ReflectionClass($class))->getMethods(ReflectionMethod::IS_PUBLIC) as $method) {
                if ($method->class === $class && str_starts_with($method->name, 'test')) {
                    yield "$class::$method->name" => $method;
                }
            }
        }
    }
}
