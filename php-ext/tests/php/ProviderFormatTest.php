<?php

declare(strict_types=1);

namespace Pillion\Tests;

use Pillion\Exception\InvalidInputException;
use Pillion\ProviderFormat;
use Pillion\ToolDefinition;
use Pillion\ToolExecutor;
use Pillion\ToolRegistry;
use PHPUnit\Framework\TestCase;

final class ProviderFormatTest extends TestCase
{
    public function testH1ToolsOfEachProvider(): void
    {
        $tools = [new ToolDefinition('ping', 'Says pong')];
        $schema = '{"type":"object","properties":{},"required":[]}';
        self::assertSame(
            '[{"type":"function","function":{"name":"ping","description":"Says pong","parameters":' . $schema . '}}]',
            json_encode(ProviderFormat::tools('openai', $tools)),
        );
        self::assertSame(
            '[{"name":"ping","description":"Says pong","input_schema":' . $schema . '}]',
            json_encode(ProviderFormat::tools('anthropic', $tools)),
        );
        self::assertSame('ping', ProviderFormat::tools('google', $tools)[0]['name']);
        self::assertSame('function', ProviderFormat::tools('openai-responses', $tools)[0]['type']);
        self::assertSame([], ProviderFormat::tools('hal9000', $tools));
    }

    public function testH5ARoundWithAModel(): void
    {
        $response = ['choices' => [['message' => ['role' => 'assistant', 'content' => 'Let me see.', 'tool_calls' => [
            ['id' => 'call_1', 'type' => 'function', 'function' => ['name' => 'calculator', 'arguments' => '{"expression":"6*7"}']],
            ['id' => 'call_2', 'type' => 'function', 'function' => ['name' => 'nope', 'arguments' => '{}']],
        ]]]]];
        $calls = ProviderFormat::toolCalls('openai', $response);
        self::assertSame(['call_1', 'call_2'], array_column($calls, 'id'));
        self::assertSame('Let me see.', ProviderFormat::text('openai', $response));
        $results = (new ToolExecutor(ToolRegistry::withBuiltins()))->executeParallel($calls);
        $conversation = [
            ...ProviderFormat::assistantMessages('openai', $response),
            ...ProviderFormat::results('openai', $results),
        ];
        self::assertSame(['assistant', 'tool', 'tool'], array_column($conversation, 'role'));
        self::assertSame('42', $conversation[1]['content']);
        self::assertSame('{"error":"Unknown tool: nope"}', $conversation[2]['content']);
    }

    public function testA6BadResponsesAreNamed(): void
    {
        $this->expectException(InvalidInputException::class);
        $this->expectExceptionMessage('choices');
        ProviderFormat::toolCalls('openai', ['no' => 'choices']);
    }

    public function testAnUnknownProviderIsNamed(): void
    {
        $this->expectException(InvalidInputException::class);
        $this->expectExceptionMessage("Unknown provider 'hal9000'");
        ProviderFormat::toolCalls('hal9000', []);
    }

    public function testElementsOfAWrongClassAreRefused(): void
    {
        $this->expectException(InvalidInputException::class);
        $this->expectExceptionMessage('Each element must be a Pillion\ToolResult');
        ProviderFormat::results('openai', ['4']);
    }
}
