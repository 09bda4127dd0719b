<?php

declare(strict_types=1);

namespace Pillion\Tests;

use Pillion\Exception\InvalidInputException;
use Pillion\ToolResult;
use PHPUnit\Framework\TestCase;

final class ToolResultTest extends TestCase
{
    public function testJ1NamedArguments(): void
    {
        $result = new ToolResult(
            toolCallId: 'c1',
            toolName: 't',
            result: ['error' => 'MCP server not available'],
            success: false,
            error: 'Server unavailable',
        );
        self::assertSame('c1', $result->toolCallId);
        self::assertSame('t', $result->toolName);
        self::assertFalse($result->success);
        self::assertSame('Server unavailable', $result->error);
        self::assertSame(['error' => 'MCP server not available'], $result->result);
    }

    public function testJ1ToArrayHasSnakeCaseKeys(): void
    {
        $result = new ToolResult('c1', 't', 5, metadata: ['source' => 'mock'], data: [1]);
        self::assertSame([
            'tool_call_id' => 'c1', 'tool_name' => 't', 'result' => 5, 'success' => true,
            'error' => null, 'error_code' => null, 'data' => [1], 'metadata' => ['source' => 'mock'],
        ], $result->toArray());
    }

    /** @dataProvider messages */
    public function testA8BothMessageForms(ToolResult $result, string $text, string $content): void
    {
        self::assertSame($text, $result->toMessage());
        self::assertSame(['role' => 'tool', 'tool_call_id' => 'c', 'content' => $content], $result->toMessageFormat());
    }

    public function messages(): iterable
    {
        yield 'text' => [new ToolResult('c', 't', '4'), '4', '4'];
        yield 'a value' => [new ToolResult('c', 't', ['total' => 15]), '{"total":15}', '{"total":15}'];
        yield 'a failure' => [new ToolResult('c', 't', null, false, 'boom'), 'Error: boom', '{"error":"boom"}'];
        yield 'a failure with a result' => [
            new ToolResult('c', 't', ['error' => 'no'], false, 'boom'), 'Error: boom', '{"error":"no"}',
        ];
    }

    public function testJ1PropertiesAreReadonly(): void
    {
        $result = new ToolResult('c', 't', 1);
        $this->expectException(\Error::class);
        $result->result = 2;
    }

    public function testJ1AResultThatIsNoJsonIsKeptUntilItIsSent(): void
    {
        $result = new ToolResult('c', 't', "\xff");
        self::assertSame("\xff", $result->result);
        $this->expectException(InvalidInputException::class);
        $this->expectExceptionMessage('not valid UTF-8');
        $result->toMessageFormat();
    }
}
