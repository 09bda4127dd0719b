<?php

declare(strict_types=1);

namespace Pillion\Tests;

use Pillion\Exception\InvalidInputException;
use Pillion\ProviderFormat;
use Pillion\Tests\Support\Expect;
use Pillion\ToolDefinition;
use Pillion\ToolExecutor;
use Pillion\ToolRegistry;
use Pillion\ToolResult;
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

    public function testA3RequiredIsAlwaysPresentInRawSchemas(): void
    {
        $inner = ['type' => 'object', 'properties' => ['x' => ['type' => 'string']]];
        $tool = new ToolDefinition('t', 'd', ['properties' => ['a' => $inner]]);
        $parameters = ['properties' => ['a' => $inner], 'type' => 'object', 'required' => []];
        self::assertSame($parameters, ProviderFormat::tools('openai', [$tool])[0]['function']['parameters']);
        self::assertSame($parameters, ProviderFormat::tools('openai-responses', [$tool])[0]['parameters']);
        unset($parameters['required']);
        self::assertSame($parameters, ProviderFormat::tools('anthropic', [$tool])[0]['input_schema']);
    }

    public function testH1GoogleReceivesOnlySupportedKeywords(): void
    {
        $tool = new ToolDefinition('t', 'd', [
            'type' => 'object',
            'properties' => [
                'tree' => ['$ref' => '#/$defs/node'],
                'either' => ['anyOf' => [['type' => 'string'], ['type' => 'null']], 'description' => 'Either'],
                'union' => ['type' => ['integer', 'string', 'null'], 'exclusiveMinimum' => 3],
                'fixed' => ['const' => 'x'],
                'numbers' => ['enum' => [1, 2]],
                'tuple' => ['prefixItems' => [['type' => 'number', 'multipleOf' => 2]]],
                'strict' => ['allOf' => [['type' => 'object', 'required' => ['a', 'b']], ['properties' => ['a' => ['type' => 'boolean']]]]],
            ],
            'required' => ['tree', 'nope'],
            'additionalProperties' => false,
            '$defs' => ['node' => ['type' => 'object', 'title' => 'Node', 'properties' => ['next' => ['$ref' => '#/$defs/node']]]],
        ]);
        $node = ['type' => 'object', 'title' => 'Node'];
        self::assertEquals([
            'type' => 'object',
            'required' => ['tree'],
            'properties' => [
                'tree' => $node + ['properties' => ['next' => $node]],
                'either' => ['type' => 'string', 'nullable' => true, 'description' => 'Either'],
                'union' => ['anyOf' => [
                    ['type' => 'string', 'nullable' => true],
                    ['type' => 'integer', 'nullable' => true, 'minimum' => 4],
                ]],
                'fixed' => ['type' => 'string', 'enum' => ['x']],
                'numbers' => ['type' => 'integer'],
                'tuple' => ['type' => 'array', 'items' => ['type' => 'number']],
                'strict' => ['type' => 'object', 'required' => ['a'], 'properties' => ['a' => ['type' => 'boolean']]],
            ],
        ], ProviderFormat::tools('google', [$tool])[0]['parameters']);
    }

    public function testH5EveryProviderBothWays(): void
    {
        $call = ['name' => 'roll', 'args' => []];
        $responses = [
            'anthropic' => ['content' => [['type' => 'text', 'text' => 'Hm.'], ['type' => 'tool_use', 'id' => 'u1', 'name' => 'roll', 'input' => []]]],
            'openai-responses' => ['output' => [
                ['type' => 'message', 'content' => [['type' => 'output_text', 'text' => 'Hm.']]],
                ['type' => 'function_call', 'id' => 'f', 'call_id' => 'u1', 'name' => 'roll', 'arguments' => []],
            ]],
            'google' => ['responseId' => 'r', 'candidates' => [['content' => ['parts' => [['text' => 'x', 'thought' => true], ['text' => 'Hm.'], ['functionCall' => $call]]]]]],
        ];
        $results = [new ToolResult('u1', 'roll', ['total' => 4]), new ToolResult('pillion_call_0', 'roll', null, false, 'no dice', 'internal_error')];
        $ids = ['anthropic' => 'u1', 'openai-responses' => 'u1', 'google' => 'pillion_call_r_0'];
        $messages = [
            'anthropic' => '[{"role":"user","content":[{"type":"tool_result","tool_use_id":"u1","content":"{\"total\":4}"},'
                . '{"type":"tool_result","tool_use_id":"pillion_call_0","content":"{\"error\":\"no dice\"}","is_error":true}]}]',
            'openai-responses' => '[{"type":"function_call_output","call_id":"u1","output":"{\"total\":4}"},'
                . '{"type":"function_call_output","call_id":"pillion_call_0","output":"{\"error\":\"no dice\"}"}]',
            'google' => '[{"role":"user","parts":[{"functionResponse":{"name":"roll","id":"u1","response":{"result":{"total":4}}}},'
                . '{"functionResponse":{"name":"roll","response":{"error":"no dice"}}}]}]',
        ];
        foreach ($responses as $provider => $response) {
            $calls = ProviderFormat::toolCalls($provider, $response);
            self::assertSame([$ids[$provider], 'roll', []], [$calls[0]->id, $calls[0]->name, $calls[0]->arguments]);
            self::assertSame('Hm.', ProviderFormat::text($provider, $response));
            $said = json_encode(ProviderFormat::assistantMessages($provider, $response));
            self::assertMatchesRegularExpression('/"(input|args)":\{\}|"arguments":"\{\}"/', $said);
            self::assertSame($messages[$provider], json_encode(ProviderFormat::results($provider, $results)));
            self::assertSame([], ProviderFormat::results($provider, []));
        }
    }

    public function testH5BlankTextOfClaudeDoesNotGoBack(): void
    {
        $text = fn (string $text) => ['type' => 'text', 'text' => $text];
        $use = fn (string $kind, mixed $input) => ['type' => $kind, 'id' => 'u1', 'name' => 'roll', 'input' => $input];
        $said = fn (array ...$blocks) => ProviderFormat::assistantMessages('anthropic', ['content' => $blocks]);
        self::assertSame([['role' => 'assistant', 'content' => [$text("Hm.\n")]]], $said($text("\n\n"), $text("Hm.\n"), $text('')));
        self::assertSame([], $said($text(" \u{a0}")));
        foreach (['{"a":1}' => ['a' => 1], '{"a":' => ['INVALID_JSON' => '{"a":'], '7' => ['INVALID_JSON' => '7']] as $given => $sent) {
            $given = (string) $given;
            self::assertEquals($use('tool_use', $sent), $said($use('tool_use', $given))[0]['content'][0]);
            $part = fn (mixed $args) => ['functionCall' => ['name' => 'roll', 'args' => $args]];
            $response = ['candidates' => [['content' => ['parts' => [$part($given)]]]]];
            self::assertEquals([$part($sent)], ProviderFormat::assistantMessages('google', $response)[0]['parts']);
        }
        foreach ([[], '', ' ', '[]'] as $nothing) {
            self::assertStringContainsString('"input":{}', json_encode($said($use('mcp_tool_use', $nothing))));
        }
    }

    public function testH5ThinkingWithoutAnAnswerDoesNotGoBack(): void
    {
        $thinking = ['type' => 'thinking', 'thinking' => 'Hm.', 'signature' => 's'];
        $redacted = ['type' => 'redacted_thinking', 'data' => 'd'];
        $text = fn (string $text) => ['type' => 'text', 'text' => $text];
        $said = fn (array ...$blocks) => ProviderFormat::assistantMessages('anthropic', ['content' => $blocks]);
        self::assertSame([], $said($thinking));
        self::assertSame([], $said($thinking, $redacted, $text("\n")));
        self::assertSame([$thinking, $text('Well.')], $said($thinking, $text('Well.'), $thinking)[0]['content']);
        $reasoning = ['type' => 'reasoning', 'id' => 'rs_1', 'summary' => []];
        $call = ['type' => 'function_call', 'call_id' => '1', 'name' => 'roll', 'arguments' => '{}'];
        $items = fn (array ...$items) => ProviderFormat::assistantMessages('openai-responses', ['output' => $items]);
        self::assertSame([], $items($reasoning));
        self::assertSame([$reasoning, $call], $items($reasoning, $call, $reasoning));
    }

    public function testH5BrokenArgumentsGoBackAsAnObject(): void
    {
        $sent = ['{ "a": 1 }' => '{ "a": 1 }', '{"a":' => '{"INVALID_JSON":"{\"a\":"}', '[1]' => '{"INVALID_JSON":"[1]"}', ' ' => '{}'];
        foreach ($sent as $given => $expected) {
            $call = ['id' => 'c1', 'type' => 'function', 'function' => ['name' => 'roll', 'arguments' => $given]];
            $chat = ['choices' => [['message' => ['role' => 'assistant', 'tool_calls' => [$call]]]]];
            self::assertSame($expected, ProviderFormat::assistantMessages('openai', $chat)[0]['tool_calls'][0]['function']['arguments']);
            $item = ['type' => 'function_call', 'call_id' => 'c1', 'name' => 'roll', 'arguments' => $given];
            self::assertSame($expected, ProviderFormat::assistantMessages('openai-responses', ['output' => [$item]])[0]['arguments']);
        }
    }

    public function testH5AMessageWithoutCallsHasContent(): void
    {
        $sent = fn (array $message) => ProviderFormat::assistantMessages('openai', ['choices' => [['message' => $message]]])[0];
        self::assertSame('', $sent(['role' => 'assistant', 'content' => null])['content']);
        self::assertSame('', $sent(['role' => 'assistant', 'tool_calls' => []])['content']);
        self::assertSame('Hm.', $sent(['role' => 'assistant', 'content' => 'Hm.'])['content']);
        $call = ['id' => 'c1', 'type' => 'function', 'function' => ['name' => 'roll', 'arguments' => '{}']];
        self::assertNull($sent(['role' => 'assistant', 'content' => null, 'tool_calls' => [$call]])['content']);
    }

    public function testH5ARefusalIsTheTextOfAnAnswerWithoutText(): void
    {
        $chat = fn (array $message) => ProviderFormat::text('openai', ['choices' => [['message' => $message]]]);
        $part = fn (string $kind, string $text) => ['type' => $kind, $kind === 'output_text' ? 'text' : $kind => $text];
        self::assertSame('No.', $chat(['content' => null, 'refusal' => 'No.']));
        self::assertSame('No.', $chat(['content' => [$part('refusal', 'No.')]]));
        self::assertSame('Yes.', $chat(['content' => 'Yes.', 'refusal' => 'No.']));
        self::assertSame('Yes.', $chat(['content' => [$part('text', 'Yes.'), $part('refusal', 'No.')]]));
        $items = fn (array ...$parts) => ProviderFormat::text('openai-responses', ['output' => [['type' => 'message', 'content' => $parts]]]);
        self::assertSame('No.', $items($part('refusal', 'No.')));
        self::assertSame('Yes.', $items($part('output_text', 'Yes.'), $part('refusal', 'No.')));
    }

    /** @dataProvider malformed */
    public function testA6AMalformedBodyNamesThePath(string $provider, array $body, string $message): void
    {
        Expect::exception(InvalidInputException::class, fn () => ProviderFormat::assistantMessages($provider, $body), $message);
    }

    public static function malformed(): iterable
    {
        $chat = fn (mixed $call) => ['choices' => [['message' => ['tool_calls' => [$call]]]]];
        yield ['openai', $chat(7), "Malformed response of the provider 'openai': choices[0].message.tool_calls[0] is a number, expected an object"];
        yield ['openai', $chat(['id' => '1', 'function' => ['name' => ['x']]]), 'choices[0].message.tool_calls[0].function.name is an array, expected a string'];
        yield ['anthropic', ['content' => [['type' => 'tool_use', 'id' => 'x']]], 'content[0].name is missing'];
        yield ['google', ['candidates' => []], 'candidates[0] is missing'];
        yield ['openai-responses', ['error' => ['message' => 'The model failed']], "The provider 'openai-responses' reported an error: The model failed"];
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
        Expect::exception(InvalidInputException::class, fn () => ProviderFormat::toolCalls('openai', ['no' => 'choices']), 'choices');
    }

    public function testAnUnknownProviderIsNamed(): void
    {
        Expect::exception(InvalidInputException::class, fn () => ProviderFormat::toolCalls('hal9000', []), "Unknown provider 'hal9000'");
    }

    public function testElementsOfAWrongClassAreRefused(): void
    {
        $this->expectException(InvalidInputException::class);
        $this->expectExceptionMessage('Each element must be a Pillion\ToolResult');
        ProviderFormat::results('openai', ['4']);
    }
}
