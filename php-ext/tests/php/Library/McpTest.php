<?php

declare(strict_types=1);

namespace Pillion\Tests\Library;

use PHPUnit\Framework\TestCase;
use Pillion\DmcpTool;
use Pillion\Exception\InvalidInputException;
use Pillion\Exception\JsonRpcException;
use Pillion\Exception\TransportException;
use Pillion\Exception\UnavailableException;
use Pillion\MCPSSEClient;
use Pillion\Tests\Support\Expect;
use Pillion\Tests\Support\FakeServer;
use Pillion\Tests\Support\SidecarProcess;
use Pillion\ToolRegistry;

/**
 * MCP servers through the sidecar. Its server `everything` also lists failing tools.
 *
 * @group library
 */
final class McpTest extends TestCase
{
    private static function url(): string
    {
        return str_replace('/sse', '/everything', FakeServer::url());
    }

    public function testAServerIsFoundByItsUrlOrItsLabel(): void
    {
        foreach ([[self::url() . '?token=x', []], ['https://elsewhere.example/', ['label' => 'everything']]] as [$url, $options]) {
            $client = new MCPSSEClient($url, options: $options);
            self::assertContains('connection', array_column($client->listTools(), 'name'), 'the names are those of the server');
            self::assertSame(['total' => 15, 'rolls' => [15]], $client->callTool('roll', ['dice' => '1d20']));
        }
    }

    public function testListToolsHasTheSchemas(): void
    {
        $tools = array_column((new MCPSSEClient(self::url()))->listTools(), null, 'name');
        self::assertSame(['name', 'description', 'inputSchema'], array_keys($tools['roll']));
        self::assertSame(['dice'], $tools['roll']['inputSchema']['required']);
        self::assertSame('Rolls dice', $tools['roll']['description']);
    }

    public function testE10ResultsAreUnchanged(): void
    {
        $client = new MCPSSEClient(self::url());
        $failed = $client->callTool('fails');
        self::assertTrue($failed['isError']);
        self::assertSame('It is broken', $failed['content'][0]['text']);
        $json = '{"empty":{},"list":[1,"two",null,true,1.0],"big":1208925819614629174706176,'
            . '"nested":{"5":"five","05":"text"},"text":"grüße \ud83d\ude00",'
            . '"max":9223372036854775807,"over":9223372036854775808,'
            . '"counted":{"0":"a","1":["b",{"0":{}},{"1":"c"},{"00":"d"}]}}';
        self::assertSame(json_decode($json, true), $client->callTool('values'));
        self::assertStringContainsString('"arguments":{}', $client->callTool('echo')['body']);
    }

    public function testRequestsThatTheSidecarSupports(): void
    {
        $client = new MCPSSEClient(self::url());
        self::assertContains('roll', array_column($client->request('tools/list')['tools'], 'name'));
        $result = $client->request('tools/call', ['name' => 'roll', 'arguments' => ['dice' => '1d20']]);
        self::assertSame(15, $result['total']);
        $this->expectException(UnavailableException::class);
        $this->expectExceptionMessage("The sidecar does not support the request 'prompts/list'");
        $client->request('prompts/list');
    }

    /** @dataProvider failures */
    public function testErrorsOfTheServerHaveTheirClasses(string $tool, array $arguments, string $class, string $message): void
    {
        $e = Expect::exception(\Pillion\Exception\PillionException::class, fn () => (new MCPSSEClient(self::url()))->callTool($tool, $arguments));
        self::assertInstanceOf($class, $e);
        self::assertStringContainsString($message, $e->getMessage());
        self::assertSame(__FILE__, $e->getFile(), 'it points at the caller');
    }

    public static function failures(): iterable
    {
        yield 'an error' => ['rpc_error', [], JsonRpcException::class, '-32600'];
        yield 'an HTTP error' => ['status', ['status' => 500], TransportException::class, 'HTTP 500'];
        yield 'no answer' => ['no_answer', [], TransportException::class, 'No valid JSON-RPC response'];
        yield 'no such tool' => ['nope', [], JsonRpcException::class, 'Unknown tool: nope'];
        yield 'wrong arguments' => ['roll', [], InvalidInputException::class, 'Missing required parameter: dice'];
    }

    public function testTheCodeOfAnErrorAndItsStatusAreFields(): void
    {
        $client = new MCPSSEClient(self::url());
        $e = Expect::exception(JsonRpcException::class, fn () => $client->callTool('rpc_error'));
        self::assertSame([-32600, -32600, 'invalid_input'], [$e->rpcCode, $e->getCode(), $e->errorCode]);
        $e = Expect::exception(TransportException::class, fn () => $client->callTool('status', ['status' => 503]));
        self::assertSame([503, 'unavailable'], [$e->httpStatus, $e->errorCode]);
    }

    public function testE8CredentialsInPhpCodeAreNeverReplaced(): void
    {
        $made = [
            new MCPSSEClient(self::url(), apiKey: 'hush'),
            new MCPSSEClient(self::url(), options: ['headers' => ['X-User' => 'alice']]),
        ];
        foreach ($made as $client) {
            self::assertFalse($client->isAvailable());
            $e = Expect::exception(UnavailableException::class, fn () => $client->callTool('roll', ['dice' => '1d20']));
            self::assertStringContainsString('with the credentials in the sidecar\'s configuration', $e->getMessage());
            self::assertStringNotContainsString('hush', (string) $e);
        }
    }

    public function testAnUnknownServerIsNamed(): void
    {
        $client = new MCPSSEClient('https://unknown.example/mcp?token=hush');
        self::assertFalse($client->isAvailable());
        $this->expectException(UnavailableException::class);
        $this->expectExceptionMessage(
            'The sidecar has no MCP server https://unknown.example/mcp with tools. Add it to the sidecar\'s configuration,'
            . ' or install the extension ext-pillion',
        );
        $client->callTool('roll');
    }

    public function testAServerThatTheSidecarCannotReachIsATransportError(): void
    {
        $sidecar = new SidecarProcess([['label' => 'down', 'url' => 'http://127.0.0.1:1/']]);
        $before = getenv('PILLION_SOCKET');
        putenv("PILLION_SOCKET=$sidecar->socket");
        try {
            $e = Expect::exception(TransportException::class, fn () => (new ToolRegistry())->registerMcpServer(['server_label' => 'down', 'server_url' => 'http://127.0.0.1:1/']));
            self::assertStringContainsString('Connection refused', $e->getMessage());
        } finally {
            putenv("PILLION_SOCKET=$before");
            $sidecar->stop();
        }
    }

    public function testD4FailuresAreResults(): void
    {
        $broken = new DmcpTool(['server_url' => self::url(), 'tool_name' => 'rpc_error']);
        $result = $broken->execute(['dice' => '1d6'], 'c');
        self::assertFalse($result->success);
        self::assertStringContainsString('Invalid Request', (string) $result->error);
        self::assertSame(['error' => "Failed to execute: $result->error"], $result->result);
        $refused = (new DmcpTool(['server_url' => self::url(), 'tool_name' => 'fails']))->execute(['dice' => '1d6'], 'c');
        self::assertSame('It is broken', $refused->error);
        self::assertTrue($refused->result['isError'], 'the content is unchanged');
    }
}
