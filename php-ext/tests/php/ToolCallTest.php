<?php

declare(strict_types=1);

namespace Pillion\Tests;

use Pillion\Exception\InvalidInputException;
use Pillion\Tests\Support\Expect;
use Pillion\ToolCall;
use PHPUnit\Framework\TestCase;

final class ToolCallTest extends TestCase
{
    public function testA6Defaults(): void
    {
        $call = new ToolCall(id: 'call_1', name: 'roll');
        self::assertSame([], $call->arguments);
        self::assertSame('function', $call->type);
        self::assertNull($call->index);
    }

    public function testA6ArgumentsAsArrayOrString(): void
    {
        self::assertSame(['a' => 1], (new ToolCall('1', 't', ['a' => 1]))->arguments);
        self::assertSame('{"a":1}', (new ToolCall('1', 't', '{"a":1}'))->arguments);
        Expect::exception(\TypeError::class, fn () => new ToolCall('1', 't', 5), 'Argument #3 ($arguments) must be of type array|string, int given');
    }

    public function testA6TheOpenAiFormHasArgumentsAsAString(): void
    {
        $call = new ToolCall(id: '1', name: 't', arguments: ['path' => 'a/b', 'n' => 1.0]);
        self::assertSame(
            ['id' => '1', 'type' => 'function', 'function' => ['name' => 't', 'arguments' => '{"path":"a/b","n":1.0}']],
            $call->jsonSerialize(),
        );
    }

    public function testE11NoArgumentsAreAnEmptyObject(): void
    {
        self::assertSame(
            '{"id":"1","type":"function","function":{"name":"t","arguments":"{}"}}',
            json_encode(new ToolCall('1', 't')),
        );
    }

    public function testA6FromArrayAcceptsBothForms(): void
    {
        $flat = ToolCall::fromArray(['id' => '1', 'name' => 't', 'arguments' => ['a' => 1], 'index' => 2]);
        self::assertSame(['id' => '1', 'type' => 'function', 'name' => 't', 'arguments' => ['a' => 1], 'index' => 2], $flat->toArray());
        $nested = ToolCall::fromArray(['id' => '1', 'type' => 'function', 'function' => ['name' => 't', 'arguments' => '{"a":1}']]);
        self::assertSame('t', $nested->name);
        self::assertSame('{"a":1}', $nested->arguments);
        self::assertEquals($nested, ToolCall::fromArray(json_decode(json_encode($nested), true)));
    }

    public function testTextThatIsNotUtf8IsNamed(): void
    {
        $this->expectException(InvalidInputException::class);
        $this->expectExceptionMessage("The 'id' of a tool call is not valid UTF-8");
        ToolCall::fromArray(['id' => "\xff", 'name' => 't']);
    }

    public function testA6FromArrayNamesWhatIsMissing(): void
    {
        Expect::exception(InvalidInputException::class, fn () => ToolCall::fromArray(['id' => '1']), "A tool call needs a string 'name'");
    }
}
