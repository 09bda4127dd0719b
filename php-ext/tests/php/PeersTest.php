<?php

declare(strict_types=1);

namespace Pillion\Tests;

use Pillion\Exception\PillionException;
use Pillion\MCPSSEClient;
use Pillion\Tests\Support\Peer;
use Pillion\ToolCall;
use Pillion\ToolExecutor;
use Pillion\ToolRegistry;
use PHPUnit\Framework\TestCase;

/**
 * With real MCP servers. Core's tests cover the details of each.
 *
 * @group extension
 */
final class PeersTest extends TestCase
{
    private static function url(string $peer): string
    {
        return Peer::url($peer);
    }

    /** @dataProvider peers */
    public function testE7ARealServerInEveryShape(string $peer, string $tool, array $arguments, string $answer): void
    {
        $client = new MCPSSEClient(self::url($peer), timeout: 20);
        self::assertTrue($client->isAvailable());
        self::assertContains($tool, array_column($client->listTools(), 'name'));
        $result = $client->callTool($tool, $arguments);
        self::assertSame($answer, $result['content'][0]['text']);
    }

    public static function peers(): iterable
    {
        yield 'server-everything over Streamable HTTP' => ['everything', 'echo', ['message' => 'hi'], 'Echo: hi'];
        yield 'server-everything over legacy SSE' => ['everything-sse', 'echo', ['message' => 'hi'], 'Echo: hi'];
        yield 'the SDK with JSON answers' => ['sdk-json', 'greet', ['name' => 'Ada'], 'Hello, Ada!'];
        yield 'Python over legacy SSE' => ['mcp1-sse', 'add', ['a' => 1, 'b' => 2], '3'];
        yield 'Python over Streamable HTTP' => ['mcp2-http', 'add', ['a' => 1, 'b' => 2], '3'];
    }

    public function testE8AServerThatRequiresABearerToken(): void
    {
        $url = self::url('fastmcp-bearer');
        self::assertFalse((new MCPSSEClient($url, timeout: 20))->isAvailable());
        $this->expectException(PillionException::class);
        (new MCPSSEClient($url, timeout: 20, apiKey: 'wrong'))->callTool('add', ['a' => 1, 'b' => 2]);
    }

    public function testE10AFailingToolOfARealServer(): void
    {
        $url = self::url('mcp1-sse');
        self::assertTrue((new MCPSSEClient($url))->callTool('fail', ['message' => 'broken'])['isError']);
        $registry = new ToolRegistry();
        $registry->registerMcpServer(['server_label' => 'python', 'server_url' => $url]);
        $result = $registry->execute('fail', ['message' => 'broken'], 'c1');
        self::assertFalse($result->success);
        self::assertStringContainsString('broken', $result->error);
        self::assertTrue($result->result['isError'], 'the content is unchanged');
    }

    /** @group timing */
    public function testC1ToolsOfTwoServersRunSideBySide(): void
    {
        $registry = ToolRegistry::withBuiltins();
        $registry->registerMcpServer(['server_label' => 'a', 'server_url' => self::url('mcp1-sse')], prefix: 'a_');
        $registry->registerMcpServer(['server_label' => 'b', 'server_url' => self::url('mcp2-http')], prefix: 'b_');
        $started = microtime(true);
        $results = (new ToolExecutor($registry))->executeParallel([
            new ToolCall('1', 'a_slow', ['seconds' => 1.5]),
            new ToolCall('2', 'b_slow', ['seconds' => 1.5]),
            new ToolCall('3', 'b_add', ['a' => 1]),
            new ToolCall('4', 'calculator', ['expression' => '6*7']),
        ]);
        self::assertLessThan(2.9, microtime(true) - $started, 'one after the other they take 3 s');
        self::assertSame([true, true, false, true], array_column($results, 'success'));
        self::assertSame('invalid_input', $results[2]->errorCode);
    }
}
