<?php

declare(strict_types=1);

namespace Pillion\Tests;

use Pillion\Exception\InvalidInputException;
use Pillion\MCPSSEClient;
use Pillion\Tests\Support\Expect;
use Pillion\ToolCall;
use Pillion\Tests\Support\FakeServer;
use PHPUnit\Framework\TestCase;

enum Suit: string
{
    case Hearts = 'H';
}

enum Plain
{
    case One;
}

/** Replaces itself in its container while it is serialized. */
final class Replaced implements \JsonSerializable
{
    public mixed $slot = null;
    public int $kept = 1;

    public function __construct(private readonly mixed $other)
    {
    }

    public function jsonSerialize(): mixed
    {
        $this->slot = $this->other;
        return $this;
    }
}

/**
 * Encoded JSON, checked by a server that returns the received body.
 *
 * @group extension
 */
final class JsonTest extends TestCase
{
    private function sent(mixed $value): string
    {
        $body = (new MCPSSEClient(FakeServer::url()))->request('echo', ['value' => $value])['body'];
        self::assertSame(1, preg_match('/"params":\{"value":(.*)\}\}$/s', $body, $found), $body);
        return $found[1];
    }

    /** @dataProvider values */
    public function testValuesAreWrittenAsJsonEncodeDoes(mixed $value): void
    {
        $flags = JSON_UNESCAPED_SLASHES | JSON_UNESCAPED_UNICODE | JSON_PRESERVE_ZERO_FRACTION;
        self::assertSame(json_encode($value, $flags), $this->sent($value));
    }

    public static function values(): iterable
    {
        yield 'scalars' => [[null, true, false, 0, -1, PHP_INT_MAX, PHP_INT_MIN, 0.5, 'text', '']];
        yield 'a float stays one' => [[1.0, 100.0]];
        yield 'text' => ["quote \" slash / back \\ line \n tab \t bell \x07 ü 😀"];
        yield 'lists and maps' => [['list' => [1, [2, []]], 'map' => ['a' => 1, 'b' => ['c' => null]]]];
        yield 'a list with gaps is a map' => [[1 => 'a', 2 => 'b']];
        yield 'numeric keys' => [['5' => 'a', '05' => 'b', '' => 'c']];
        yield 'an array in another order' => [[1 => 'b', 0 => 'a']];
        yield 'objects' => [(object) ['a' => 1, 'b' => (object) []]];
        yield 'public properties only' => [new class () {
            public int $public = 1;
            protected int $protected = 2;
            private int $private = 3;
            public int $unset;
        }];
        yield 'a backed enum' => [[Suit::Hearts]];
        yield 'a date' => [new \DateTimeImmutable('2025-10-14 09:30:45', new \DateTimeZone('UTC'))];
        yield 'jsonSerialize' => [new class () implements \JsonSerializable {
            public function jsonSerialize(): mixed
            {
                return ['shown' => Suit::Hearts];
            }
        }];
        yield 'jsonSerialize that returns itself' => [new class () implements \JsonSerializable {
            public int $x = 1;

            public function jsonSerialize(): mixed
            {
                return $this;
            }
        }];
        $shared = [1];
        yield 'references' => [['a' => &$shared, 'b' => &$shared]];
    }

    /**
     * @dataProvider noJson
     *
     * @param \Closure(): mixed $make makes the value: PHPUnit prints its data sets, and cannot print all of these
     */
    public function testValuesThatJsonCannotRepresentAreRejected(\Closure $make, string $message): void
    {
        Expect::exception(InvalidInputException::class, fn () => $this->sent($make()), $message);
    }

    public static function noJson(): iterable
    {
        yield 'NAN' => [fn () => NAN, 'NAN or INF'];
        yield 'INF' => [fn () => [-INF], 'NAN or INF'];
        yield 'bytes' => [fn () => "\xff", 'not valid UTF-8'];
        yield 'bytes as a key' => [fn () => ["\xff" => 1], 'not valid UTF-8'];
        yield 'a resource' => [fn () => STDIN, 'resource'];
        yield 'a plain enum' => [fn () => Plain::One, 'non-backed enum'];
        yield 'an array in itself' => [function () {
            $recursive = [];
            $recursive['self'] = &$recursive;
            return $recursive;
        }, 'deeper than 128 levels'];
        yield 'an object in itself' => [function () {
            $object = new \stdClass();
            $object->self = $object;
            return $object;
        }, 'deeper than 128 levels'];
        yield '10,000 levels' => [fn () => array_reduce(range(1, 10_000), fn (array $deep) => [$deep], []), 'deeper than 128 levels'];
    }

    public function testExceptionsOfJsonSerializePassThrough(): void
    {
        $this->expectException(\DomainException::class);
        $this->expectExceptionMessage('not me');
        $this->sent([new class () implements \JsonSerializable {
            public function jsonSerialize(): mixed
            {
                throw new \DomainException('not me');
            }
        }]);
    }

    public function testJsonSerializeMayReleaseTheValueBeingWritten(): void
    {
        $inner = [
            new class ($inner) implements \JsonSerializable {
                public function __construct(private mixed &$holder)
                {
                }

                public function jsonSerialize(): int
                {
                    $this->holder = null;
                    return 1;
                }
            },
            str_repeat('x', 3),
            ['y' => 2],
        ];
        $call = new ToolCall('1', 'f', ['list' => &$inner, 'after' => true]);
        self::assertSame('{"list":[1,"xxx",{"y":2}],"after":true}', $call->jsonSerialize()['function']['arguments']);
        self::assertNull($inner);
    }

    public function testListsWithHolesAndMixedKeys(): void
    {
        $holes = [1, 2, 3];
        unset($holes[1]);
        $written = fn (mixed $value) => (new ToolCall('1', 'f', ['v' => $value]))->jsonSerialize()['function']['arguments'];
        self::assertSame('{"v":{"0":1,"2":3}}', $written($holes));
        self::assertSame('{"v":[1,3]}', $written(array_values($holes)));
        self::assertSame('{"v":{"-5":"a","b":"c","7":"d"}}', $written([-5 => 'a', 'b' => 'c', 7 => 'd']));
    }

    public function testAnObjectThatReplacesItselfIsWrittenUnchanged(): void
    {
        foreach (['text', 7, null, [1], new \stdClass()] as $other) {
            $replaced = new Replaced($other);
            $replaced->slot = &$slot;
            $slot = $replaced;
            $json = json_encode($other);
            self::assertSame("[{\"slot\":$json,\"kept\":1}]", $this->sent([&$slot]));
            self::assertEquals($other, $slot);
        }
    }
}
