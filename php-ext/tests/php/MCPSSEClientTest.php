<?php

declare(strict_types=1);

namespace Pillion\Tests;

use Pillion\DmcpTool;
use Pillion\Exception\InvalidInputException;
use Pillion\Exception\JsonRpcException;
use Pillion\Exception\PillionException;
use Pillion\Exception\TimeoutException;
use Pillion\Exception\TransportException;
use Pillion\McpClient;
use Pillion\MCPSSEClient;
use Pillion\Tests\Support\Expect;
use Pillion\Tests\Support\FakeServer;
use Pillion\Tests\Support\Process;
use Pillion\ToolRegistry;
use PHPUnit\Framework\TestCase;

/** With a fake server of the legacy dialect (POST with an event stream); core's tests use real servers. */
final class MCPSSEClientTest extends TestCase
{
    private MCPSSEClient $client;

    protected function setUp(): void
    {
        $this->client = new MCPSSEClient(FakeServer::url(), timeout: 20);
    }

    /** @group extension */
    public function testE1ARequestHasTheLegacyForm(): void
    {
        $seen = $this->client->callTool('connection');
        self::assertSame('application/json, text/event-stream', $seen['accept']);
        self::assertSame('application/json', $seen['content_type']);
        $sent = json_decode($this->client->callTool('echo', ['a' => 1])['body'], true);
        self::assertStringStartsWith('mcp_', $sent['id']);
        self::assertSame('2.0', $sent['jsonrpc']);
        self::assertSame(['name' => 'echo', 'arguments' => ['a' => 1]], $sent['params']);
    }

    /** @group extension */
    public function testE1TheApiKeyIsABearerToken(): void
    {
        self::assertNull($this->client->callTool('connection')['authorization']);
        $keyed = new MCPSSEClient(FakeServer::url(), apiKey: 'sekrit');
        self::assertSame('Bearer sekrit', $keyed->callTool('connection')['authorization']);
    }

    /** @group extension */
    public function testE3ErrorsHaveTheLegacyMessages(): void
    {
        self::assertFailure(TransportException::class, 'MCP SSE request failed with HTTP 500', 'status', ['status' => 500]);
        self::assertFailure(TransportException::class, 'No valid JSON-RPC response found in SSE stream', 'no_answer');
        $error = self::assertFailure(JsonRpcException::class, 'MCP Error (-32600): Invalid Request', 'rpc_error');
        self::assertSame([-32600, -32600, ['why' => 'because']], [$error->rpcCode, $error->getCode(), $error->data]);
        self::assertFailure(JsonRpcException::class, 'MCP Error (-1): Unknown MCP error', 'odd_error');
    }

    /** @group extension */
    public function testE3TheStatusIsAField(): void
    {
        $error = self::assertFailure(TransportException::class, 'HTTP 503', 'status', ['status' => 503]);
        self::assertSame(503, $error->httpStatus);
    }

    /** @group extension */
    public function testE4AnHttpErrorWithJsonKeepsItsStatus(): void
    {
        $this->client = new MCPSSEClient(FakeServer::url(), timeout: 20, options: ['handshake' => 'never']);
        foreach (['{"error": "boom"}', '{"error": {"message": "boom"}}'] as $body) {
            $error = self::assertFailure(TransportException::class, 'MCP SSE request failed with HTTP 500', 'status', ['status' => 500, 'json' => $body]);
            self::assertSame([500, 'unavailable'], [$error->httpStatus, $error->errorCode]);
        }
    }

    /** @group extension */
    public function testE3ARefusedConnectionIsAnError(): void
    {
        $client = new MCPSSEClient('http://127.0.0.1:1/sse');
        $this->expectException(TransportException::class);
        $this->expectExceptionMessageMatches('/^MCP SSE request failed: /');
        $client->callTool('roll');
    }

    /** @group timing */
    public function testTheTimeoutHolds(): void
    {
        $client = new MCPSSEClient(FakeServer::url(), timeout: 0.2);
        $started = microtime(true);
        $e = Expect::exception(TimeoutException::class, fn () => $client->callTool('slow', ['seconds' => 5]));
        self::assertSame('timeout', $e->errorCode);
        self::assertLessThan(3, microtime(true) - $started);
    }

    public function testE5ListToolsIsEmptyOnFailureAndLogsIt(): void
    {
        $log = tempnam(sys_get_temp_dir(), 'pillion');
        $before = ini_set('error_log', $log);
        try {
            self::assertSame([], (new MCPSSEClient('http://127.0.0.1:1/sse?token=secret'))->listTools());
            $line = (string) file_get_contents($log);
        } finally {
            ini_set('error_log', (string) $before);
            unlink($log);
        }
        self::assertStringContainsString('Failed to list MCP tools', $line);
        self::assertStringNotContainsString('secret', $line);
    }

    /** @group extension */
    public function testE5ListTools(): void
    {
        $tools = $this->client->listTools();
        self::assertSame(['roll', 'echo', 'slow', 'not a name'], array_column($tools, 'name'));
        self::assertSame(['dice'], $tools[0]['inputSchema']['required']);
    }

    public function testE5IsAvailableMatchesTheStateOfTheServer(): void
    {
        self::assertTrue($this->client->isAvailable());
        self::assertFalse((new MCPSSEClient('http://127.0.0.1:1/sse'))->isAvailable());
    }

    public function testE9AClientDoesNoIOBeforeItsFirstCall(): void
    {
        $listener = stream_socket_server('tcp://127.0.0.1:0');
        $url = 'http://' . stream_socket_get_name($listener, false) . '/sse';
        $client = new MCPSSEClient($url);
        $tool = new DmcpTool(['server_url' => $url]);
        (new ToolRegistry())->register($tool);
        self::assertTrue($tool->isServerAvailable());
        // The kernel accepts a connection here, although no process does.
        self::assertFalse(@stream_socket_accept($listener, 0.2), 'a client has connected');
        if (extension_loaded('pillion')) {
            // The server stops before it has responded, so that a second request would be noticed.
            $patient = new MCPSSEClient($url, 0.2);
            self::assertFalse($patient->isAvailable());
            self::assertIsResource(@stream_socket_accept($listener, 0));
        }
        unset($client);
    }

    /** @group extension */
    public function testE10ResultsAreUnchanged(): void
    {
        self::assertSame(['total' => 15, 'rolls' => [15]], $this->client->callTool('roll', ['dice' => '1d20']));
        $failed = $this->client->callTool('fails');
        self::assertTrue($failed['isError']);
        self::assertSame('It is broken', $failed['content'][0]['text']);
    }

    /** @group extension */
    public function testJ3JsonBecomesArraysLikeWithJsonDecode(): void
    {
        $json = '{"empty":{},"list":[1,"two",null,true,1.0],"big":1208925819614629174706176,'
            . '"nested":{"5":"five","05":"text"},"text":"grüße \ud83d\ude00",'
            . '"max":9223372036854775807,"over":9223372036854775808,'
            . '"counted":{"0":"a","1":["b",{"0":{}},{"1":"c"},{"00":"d"}]}}';
        self::assertSame(json_decode($json, true), $this->client->callTool('values'));
    }

    /** @group extension */
    public function testE11EmptyArgumentsAreAnObject(): void
    {
        self::assertStringContainsString('"arguments":{}', $this->client->callTool('echo')['body']);
        self::assertStringContainsString('"arguments":{}', $this->client->callTool('echo', [])['body']);
        self::assertStringContainsString('"params":{}', $this->client->request('echo')['body']);
    }

    /** @group extension */
    public function testAnyMethodCanBeRequested(): void
    {
        self::assertSame(['x' => [1, 2]], $this->client->request('echo', ['x' => [1, 2]])['params']);
        Expect::exception(JsonRpcException::class, fn () => $this->client->request('nope'), 'MCP Error (-32601): Method not found: nope');
    }

    /** @group extension */
    public function testJsonNestedTooDeepIsAClearError(): void
    {
        self::assertFailure(TransportException::class, 'recursion limit', 'deep', ['depth' => 10_000]);
        self::assertSame(['total' => 15, 'rolls' => [15]], $this->client->callTool('roll'), 'the client still works');
    }

    /** @group extension */
    public function testClientsWithDifferentKeysShareNoConnection(): void
    {
        $connections = [];
        foreach (['alice', 'bob', 'alice'] as $key) {
            $seen = (new MCPSSEClient(FakeServer::url(), apiKey: $key))->callTool('connection');
            self::assertSame("Bearer $key", $seen['authorization']);
            $connections[] = $seen['connection'];
        }
        self::assertSame($connections[0], $connections[2], 'the session outlives the object');
        self::assertNotSame($connections[0], $connections[1]);
    }

    /** @group extension */
    public function testM2DebugLines(): void
    {
        $url = FakeServer::url();
        $ran = Process::run([
            PHP_BINARY, '-d', 'extension=' . getenv('PILLION_EXTENSION'), '-d', 'log_errors=1',
            '-d', 'pillion.log_level=debug', '-r',
            "(new Pillion\\MCPSSEClient('$url'))->callTool('echo', ['password' => 'hunter2']);",
        ]);
        self::assertStringContainsString('[debug] MCP SSE Request {"url":"' . $url . '","method":"tools/call"}', $ran['errors']);
        self::assertStringContainsString('[debug] MCP SSE Response {"method":"tools/call","transport":"post_sse"', $ran['errors']);
        self::assertStringNotContainsString('hunter2', $ran['errors']);
    }

    /**
     * @dataProvider badConfigurations
     *
     * @group extension
     */
    public function testBadConfigurationsAreNamed(array $arguments, string $message): void
    {
        Expect::exception(InvalidInputException::class, fn () => new MCPSSEClient(...$arguments), $message);
    }

    public static function badConfigurations(): iterable
    {
        yield 'no URL' => [['not-a-url'], 'url'];
        yield 'another scheme' => [['ftp://example.org/'], 'use http:// or https://'];
        yield 'a WebSocket' => [['ws://example.org/'], 'use http:// or https://'];
        yield 'a command' => [['http://localhost/', 'options' => ['command' => 'sh']], "exactly one of 'url' and 'command'"];
        yield 'a transport for programs' => [['http://localhost/', 'options' => ['transport' => 'stdio']], 'The transport does not match'];
        yield 'a credential in the URL' => [['http://user:hush@localhost/'], "put them into 'authentication'"];
        yield 'a header that is none' => [['http://localhost/', 'options' => ['headers' => ['X-Bad' => "a\n"]]], "Invalid header 'X-Bad'"];
        yield 'a header that frames a message' => [['http://localhost/', 'options' => ['headers' => ['Content-Length' => '5']]], "Header 'Content-Length' is set by the client and cannot be configured"];
        yield 'an unknown option' => [['http://localhost/', 'options' => ['retries' => 3]], "'retries', expected one of label, transport, handshake, protocol_version, authentication, headers, token_in_query, limits, allow_http, egress"];
        yield 'an argument as an option' => [['http://localhost/', 'options' => ['timeout' => 3]], "'timeout': pass the argument \$timeout"];
        yield 'no time' => [['http://localhost/', 'timeout' => 0], "'timeout': at least 0.001 seconds are required"];
        yield 'a transport that is none' => [['http://localhost/', 'options' => ['transport' => 'pigeon']], "'transport': Unknown transport: pigeon, expected one of auto, streamable_http, legacy_sse"];
        yield 'a negative timeout' => [['http://localhost/', 'timeout' => -1], 'timeout'];
        yield 'no number' => [['http://localhost/', 'timeout' => NAN], 'timeout'];
        yield 'plain http to another machine' => [['http://mcp.internal:8000/sse'], "plain http to 'mcp.internal' is not allowed: use https, or set the option 'allow_http' to true"];
        yield 'a link-local address' => [
            ['http://169.254.169.254/', 'options' => ['allow_http' => true]], 'the link-local address 169.254.169.254',
        ];
        yield 'allow_http that is no truth' => [['http://localhost/', 'options' => ['allow_http' => 'mcp']], "'allow_http'"];
        yield 'two credentials' => [
            ['http://localhost/', 'apiKey' => 'k', 'options' => ['authentication' => ['type' => 'none']]], 'authentication',
        ];
    }

    public function testPlainHttpToAnotherMachineIsAllowedByAnOption(): void
    {
        $options = ['allow_http' => true];
        self::assertInstanceOf(MCPSSEClient::class, new MCPSSEClient('http://mcp.internal:8000/sse', options: $options));
        $options = ['egress' => ['allow_http' => ['mcp.internal']]];
        self::assertInstanceOf(MCPSSEClient::class, new MCPSSEClient('http://mcp.internal:8000/sse', options: $options));
    }

    /** @group extension */
    public function testCredentialsAreNotShown(): void
    {
        $client = new MCPSSEClient(FakeServer::url(), apiKey: 'sekrit');
        self::assertStringNotContainsString('sekrit', print_r($client, true) . var_export($client, true));
        Expect::exception(\Exception::class, fn () => serialize($client), "Serialization of 'Pillion\\MCPSSEClient' is not allowed");
    }

    public function testL1AURLHasNoCredentialsThatAreShown(): void
    {
        foreach ([MCPSSEClient::class, McpClient::class] as $class) {
            $e = Expect::exception(InvalidInputException::class, fn () => new $class('https://alice:hush@mcp.example.org/sse'));
            self::assertSame("Invalid MCP server option 'url': The server URL contains a user or password: put them into 'authentication'", $e->getMessage());
            self::assertStringNotContainsString('hush', (string) $e);
            $client = new $class('https://mcp.example.org/sse?token=sekrit');
            self::assertStringNotContainsString('sekrit', print_r($client, true) . var_export($client, true));
        }
    }

    public function testL1CredentialsStayOutOfStackTraces(): void
    {
        $made = [
            fn () => new MCPSSEClient('not-a-url', 30, 'hush', ['authentication' => ['token' => 'hush']]),
            fn () => new DmcpTool(['server_url' => 'not-a-url', 'api_key' => 'hush']),
            fn () => (new ToolRegistry())->registerMcpServer(['server_url' => 'not-a-url', 'api_key' => 'hush']),
        ];
        foreach ($made as $make) {
            $e = Expect::exception(InvalidInputException::class, $make(...));
            self::assertStringNotContainsString('hush', print_r($e->getTrace()[0], true) . $e);
        }
    }

    public function testASubclassThatSkipsTheConstructorGetsAnError(): void
    {
        $client = new class () extends MCPSSEClient {
            public function __construct()
            {
            }
        };
        Expect::exception(\Error::class, fn () => $client->listTools(), 'call parent::__construct()');
    }

    public function testASubclassMayOverride(): void
    {
        $client = new class (FakeServer::url()) extends MCPSSEClient {
            public function callTool(string $name, array $arguments = []): mixed
            {
                return ['wrapped' => parent::callTool($name, $arguments)];
            }
        };
        self::assertSame(15, $client->callTool('roll', ['dice' => '1d20'])['wrapped']['total']);
    }

    public function testItCanBeMocked(): void
    {
        $client = $this->createMock(MCPSSEClient::class);
        $client->method('callTool')->willReturn(['total' => 7]);
        self::assertSame(['total' => 7], $client->callTool('roll'));
    }

    private function assertFailure(string $class, string $message, string $tool, array $arguments = []): PillionException
    {
        $e = Expect::exception($class, fn () => $this->client->callTool($tool, $arguments));
        self::assertInstanceOf(\RuntimeException::class, $e);
        self::assertStringContainsString($message, $e->getMessage());
        return $e;
    }
}
