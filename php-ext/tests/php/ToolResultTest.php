<?php

declare(strict_types=1);

namespace Pillion\Tests;

use Pillion\Exception\ApprovalRequiredException;
use Pillion\Exception\InvalidInputException;
use Pillion\Exception\PillionException;
use Pillion\Exception\RateLimitedException;
use Pillion\Exception\TransportException;
use Pillion\ProviderFormat;
use Pillion\Tests\Support\Expect;
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

    public static function messages(): iterable
    {
        yield 'text' => [new ToolResult('c', 't', '4'), '4', '4'];
        yield 'a value' => [new ToolResult('c', 't', ['total' => 15]), '{"total":15}', '{"total":15}'];
        yield 'a failure' => [new ToolResult('c', 't', null, false, 'boom'), 'Error: boom', '{"error":"boom"}'];
        yield 'a failure with a result' => [
            new ToolResult('c', 't', ['error' => 'no'], false, 'boom'), 'Error: boom', '{"error":"no"}',
        ];
    }

    /** @dataProvider envelopes */
    public function testE10AModelReadsTheTextOfAnMcpResult(mixed $result, string $text): void
    {
        $result = new ToolResult('c', 't', $result);
        self::assertSame([$text, $text], [$result->toMessage(), $result->toMessageFormat()['content']]);
        foreach (['openai' => 'content', 'openai-responses' => 'output'] as $provider => $key) {
            self::assertSame($text, ProviderFormat::results($provider, [$result])[0][$key]);
        }
        self::assertSame($text, ProviderFormat::results('anthropic', [$result])[0]['content'][0]['content']);
        $read = ProviderFormat::results('google', [$result])[0]['parts'][0]['functionResponse']['response'];
        self::assertSame(['result'], array_keys($read));
        self::assertSame($text, is_string($read['result']) ? $read['result'] : json_encode($read['result'], JSON_PRESERVE_ZERO_FRACTION | JSON_UNESCAPED_SLASHES));
    }

    public static function envelopes(): iterable
    {
        $one = ['type' => 'text', 'text' => 'one', 'annotations' => ['priority' => 1]];
        $two = ['type' => 'text', 'text' => 'two'];
        yield 'text' => [['content' => [$one]], 'one'];
        yield 'texts' => [
            ['content' => [$one, $two], 'structuredContent' => ['a' => 1], 'isError' => false, '_meta' => ['b' => 1], 'resultType' => 'complete'],
            "one\ntwo",
        ];
        yield 'structured content' => [['structuredContent' => ['a' => 1.0]], '{"a":1.0}'];
        yield 'structured content, no blocks' => [['content' => [], 'structuredContent' => [1, 2]], '[1,2]'];
        yield 'nothing' => [['content' => []], ''];
        yield 'nothing that is structured' => [['content' => [], 'structuredContent' => null], ''];
        yield 'an object' => [(object) ['content' => [(object) $two]], 'two'];
        yield 'an object with a form of its own' => [
            new class implements \JsonSerializable {
                public function jsonSerialize(): array
                {
                    return ['content' => [['type' => 'text', 'text' => 'three']]];
                }
            },
            'three',
        ];
        $whole = [
            'a text that is none' => ['content' => [['type' => 'text', 'text' => 1]]],
            'a member of its own' => ['content' => [$two], 'sources' => ['a']],
            'a map of blocks' => ['content' => ['k' => $two]],
            'no blocks' => ['content' => 'a'],
            'null' => ['content' => null],
            'a list' => [$two],
            'no MCP' => ['total' => 15, 'rolls' => [15]],
        ];
        foreach ($whole as $name => $result) {
            yield $name => [$result, json_encode($result, JSON_UNESCAPED_SLASHES)];
        }
    }

    public function testE10AnImageIsAMarkerOrAnImage(): void
    {
        $image = ['type' => 'image', 'data' => 'iVBORw0KGgo=', 'mimeType' => 'image/png'];
        $result = new ToolResult('c', 't', ['content' => [['type' => 'text', 'text' => 'Done.'], $image]]);
        $text = "Done.\n[image image/png, 8 bytes]";
        self::assertSame([$text, $text], [$result->toMessage(), $result->toMessageFormat()['content']]);
        self::assertSame($text, ProviderFormat::results('openai', [$result])[0]['content']);
        $blocks = ProviderFormat::results('anthropic', [$result])[0]['content'][0]['content'];
        self::assertSame($image['data'], $blocks[1]['source']['data']);
        $output = ProviderFormat::results('openai-responses', [$result])[0]['output'];
        self::assertSame("data:image/png;base64,$image[data]", $output[1]['image_url']);
        $parts = ProviderFormat::results('google', [$result])[0]['parts'];
        self::assertSame($text, $parts[0]['functionResponse']['response']['result']);
        self::assertSame($image['data'], $parts[2]['inlineData']['data']);
    }

    /** @dataProvider media */
    public function testE10EncodedDataAreNeverText(mixed $result, string $text): void
    {
        self::assertSame($text, (new ToolResult('c', 't', $result))->toMessageFormat()['content']);
    }

    public static function media(): iterable
    {
        $data = str_repeat('QUJD', 100);
        $image = ['type' => 'image', 'data' => $data, 'mimeType' => 'image/png'];
        $blocks = [
            $image,
            ['type' => 'audio', 'data' => "AA\nAA", 'mimeType' => 'audio/wav'],
            ['type' => 'resource', 'resource' => ['uri' => 'file:///a', 'mimeType' => 'text/plain', 'text' => 'Hi']],
            ['type' => 'resource', 'resource' => ['uri' => 'file:///b', 'blob' => 'AAAA']],
            ['type' => 'resource_link', 'uri' => 'file:///c', 'name' => "c\n", 'mimeType' => 'text/csv', 'size' => 7, 'description' => 'All sales'],
            ['type' => 'hologram', 'depth' => 3],
        ];
        $lines = [
            '[image image/png, 300 bytes]', '[audio audio/wav, 3 bytes]', '[resource file:///a]', 'Hi',
            '[resource file:///b application/octet-stream, 3 bytes]', '[resource link file:///c c , text/csv, 7 bytes]', 'All sales',
            '{"type":"hologram","depth":3}',
        ];
        yield 'blocks' => [['content' => $blocks], implode("\n", $lines)];
        yield 'structured' => [['content' => [$image], 'structuredContent' => ['a' => 1]], "$lines[0]\n{\"a\":1}"];
        $marked = '{"type":"image","data":"' . $lines[0] . '","mimeType":"image/png"}';
        yield 'a list' => [[$image], "[$marked]"];
        yield 'a form of its own' => [['shot' => $image, 'big' => 1.0], '{"shot":' . $marked . ',"big":1.0}'];
        yield 'source' => [['source' => ['media_type' => 'image/png', 'data' => $data]], '{"source":{"media_type":"image/png","data":"[file image/png, 300 bytes]"}}'];
        yield 'text' => [['data' => $data], '{"data":"' . $data . '"}'];
    }

    public function testE10AModelReadsThatAnMcpCallFailed(): void
    {
        $envelope = ['content' => [['type' => 'text', 'text' => 'no dice']], 'isError' => true];
        foreach ([$envelope, ['content' => []], 'no dice'] as $result) {
            $failed = new ToolResult('c', 't', $result, false, 'no dice');
            self::assertSame(['Error: no dice', '{"error":"no dice"}'], [$failed->toMessage(), $failed->toMessageFormat()['content']]);
            $read = ProviderFormat::results('google', [$failed])[0]['parts'][0]['functionResponse']['response'];
            self::assertSame(['error' => 'no dice'], $read);
        }
        $failed = new ToolResult('c', 't', $envelope, false, 'boom');
        self::assertSame(['Error: boom', 'no dice'], [$failed->toMessage(), $failed->toMessageFormat()['content']]);
        $read = ProviderFormat::results('google', [$failed])[0]['parts'][0]['functionResponse']['response'];
        self::assertSame(['error' => 'boom', 'result' => 'no dice'], $read);
    }

    public function testJ1PropertiesAreReadonly(): void
    {
        $result = new ToolResult('c', 't', 1);
        Expect::exception(\Error::class, fn () => $result->result = 2);
    }

    private const MCP = [
        'content' => [
            ['type' => 'text', 'text' => 'one', 'annotations' => ['audience' => ['user']], 'x-new' => ['kept' => 1]],
            ['type' => 'image', 'data' => "iVBO\nRw0K", 'mimeType' => 'image/png'],
            ['type' => 'resource_link', 'uri' => 'file:///a', 'name' => 'a'],
            ['type' => 'text', 'text' => 'two'],
            ['type' => 'resource', 'resource' => ['uri' => 'file:///b', 'mimeType' => 'image/gif', 'blob' => 'R0lGOA']],
            ['type' => 'resource', 'resource' => ['uri' => 'file:///c', 'mimeType' => 'text/plain', 'text' => 'c']],
            ['type' => 'hologram', 'depth' => 3],
        ],
        'structuredContent' => ['total' => 15],
        '_meta' => ['cost' => 2],
    ];

    public function testE10AllPartsOfAnMcpResultAreRead(): void
    {
        $result = new ToolResult('c', 't', self::MCP);
        self::assertSame(self::MCP['content'], $result->content());
        self::assertSame("one\ntwo", $result->text());
        self::assertSame(['total' => 15], $result->structuredContent());
        self::assertSame([
            ['mime_type' => 'image/png', 'data' => "\x89PNG\r\n"],
            ['mime_type' => 'image/gif', 'data' => 'GIF8'],
        ], $result->images());
        self::assertFalse($result->isError());
        self::assertSame(self::MCP, $result->result);
    }

    public function testE10StructuredContentWithoutTextIsText(): void
    {
        foreach ([[], ['content' => []]] as $content) {
            $result = new ToolResult('c', 't', $content + ['structuredContent' => ['a' => 1.0]]);
            self::assertSame(['{"a":1.0}', []], [$result->text(), $result->content()]);
        }
        self::assertSame('', (new ToolResult('c', 't', ['content' => []]))->text());
    }

    /** @dataProvider plain */
    public function testAnyOtherResultIsOneBlockOfText(ToolResult $result, string $text, mixed $structured): void
    {
        self::assertSame($text, $result->text());
        self::assertSame($text === '' ? [] : [['type' => 'text', 'text' => $text]], $result->content());
        self::assertSame($structured, $result->structuredContent());
        self::assertSame([], $result->images());
    }

    public static function plain(): iterable
    {
        yield 'text' => [new ToolResult('c', 't', 'hi'), 'hi', null];
        yield 'text with data' => [new ToolResult('c', 't', 'hi', data: ['x' => 1]), 'hi', ['x' => 1]];
        yield 'a value' => [new ToolResult('c', 't', ['x' => 'é/']), '{"x":"é/"}', ['x' => 'é/']];
        yield 'a number' => [new ToolResult('c', 't', 5), '5', 5];
        yield 'nothing' => [new ToolResult('c', 't', null), '', null];
        yield 'a failure' => [ToolResult::failure('boom'), 'boom', null];
        yield 'content of its own' => [new ToolResult('c', 't', ['content' => 'x']), '{"content":"x"}', ['content' => 'x']];
        yield 'blocks that are none' => [new ToolResult('c', 't', ['content' => [['a' => 1]]]), '{"content":[{"a":1}]}', ['content' => [['a' => 1]]]];
        yield 'a map of blocks' => [new ToolResult('c', 't', ['content' => ['k' => ['type' => 'text']]]), '{"content":{"k":{"type":"text"}}}', ['content' => ['k' => ['type' => 'text']]]];
    }

    public function testAnImageThatIsNotBase64IsNamed(): void
    {
        $result = new ToolResult('c', 't', ['content' => [['type' => 'text', 'text' => ''], ['type' => 'image', 'data' => '!!!']]]);
        Expect::exception(TransportException::class, fn () => $result->images(), 'Content block 1 does not contain valid base64');
    }

    /** @dataProvider codes */
    public function testC5ThrowKnowsTheClassOfEveryCode(string $code, string $class): void
    {
        $e = Expect::exception(PillionException::class, fn () => ToolResult::failure('boom', $code)->throw());
        self::assertSame(["Pillion\\Exception\\$class", 'boom', $code], [$e::class, $e->getMessage(), $e->errorCode]);
    }

    public static function codes(): iterable
    {
        $classes = [
            'invalid_input' => 'InvalidInputException', 'not_found' => 'NotFoundException', 'timeout' => 'TimeoutException',
            'rate_limited' => 'RateLimitedException', 'approval_required' => 'ApprovalRequiredException',
            'denied' => 'DeniedException', 'cancelled' => 'CancelledException', 'unavailable' => 'UnavailableException', 'internal_error' => 'PillionException',
            'of_my_own' => 'PillionException',
        ];
        foreach ($classes as $code => $class) {
            yield $code => [$code, $class];
        }
    }

    public function testThrowUsesTheMetadata(): void
    {
        $required = ['approval_id' => 'abc', 'arguments' => ['a' => 1]];
        $e = Expect::exception(ApprovalRequiredException::class, fn () => ToolResult::failure('x', 'approval_required', 'c', 't', metadata: $required)->throw());
        self::assertSame(['abc', 't', ['a' => 1]], [$e->approvalId, $e->toolName, $e->arguments]);
        foreach ([[['retry_after' => 5], 5.0], [['retry_after' => 'soon'], null], [[], null]] as [$metadata, $seconds]) {
            $e = Expect::exception(RateLimitedException::class, fn () => ToolResult::failure('x', 'rate_limited', metadata: $metadata)->throw());
            self::assertSame($seconds, $e->retryAfter);
        }
    }

    public function testThrowReturnsASuccessfulResult(): void
    {
        $result = ToolResult::success(5);
        self::assertSame($result, $result->throw());
    }

    public function testFactoriesMakeTheClassTheyAreCalledOn(): void
    {
        $mine = new class ('', '', null) extends ToolResult {
        };
        self::assertInstanceOf($mine::class, $mine::success('x'));
        $result = $mine::failure(error: 'no', toolName: 't', result: ['a' => 1]);
        self::assertInstanceOf($mine::class, $result);
        self::assertSame([false, 'no', 'internal_error', 't', ['a' => 1], true], [$result->success, $result->error, $result->errorCode, $result->toolName, $result->result, $result->isError()]);
        $result = ToolResult::success('r', 'c', 't', ['d'], ['m' => 1]);
        self::assertSame(['c', 't', 'r', ['d'], ['m' => 1], null], [$result->toolCallId, $result->toolName, $result->result, $result->data, $result->metadata, $result->errorCode]);
    }

    public function testJsonHasTheNamesOfToArray(): void
    {
        self::assertSame(
            '{"tool_call_id":"","tool_name":"","result":1,"success":true,"error":null,"error_code":null,"data":null,"metadata":{}}',
            json_encode(ToolResult::success(1)),
        );
        $result = ToolResult::success(1, metadata: ['a' => 1]);
        self::assertSame($result->toArray(), json_decode(json_encode($result), true));
    }

    public function testJ1AResultMayContainValuesThatAreNotJsonUntilItIsSent(): void
    {
        $result = new ToolResult('c', 't', "\xff");
        self::assertSame("\xff", $result->result);
        Expect::exception(InvalidInputException::class, fn () => $result->toMessageFormat(), 'not valid UTF-8');
    }
}
