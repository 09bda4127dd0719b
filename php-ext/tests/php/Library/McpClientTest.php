<?php

declare(strict_types=1);

namespace Pillion\Tests\Library;

use PHPUnit\Framework\TestCase;
use Pillion\CancellationToken;
use Pillion\Event\ToolCallFinished;
use Pillion\Event\ToolCallStarted;
use Pillion\Event\ToolsListed;
use Pillion\Exception\CancelledException;
use Pillion\Exception\InvalidInputException;
use Pillion\Exception\JsonRpcException;
use Pillion\Exception\TimeoutException;
use Pillion\Exception\UnavailableException;
use Pillion\McpClient;
use Pillion\Tests\Support\Cache;
use Pillion\Tests\Support\Dispatcher;
use Pillion\Tests\Support\Expect;
use Pillion\Tests\Support\FakeServer;
use Pillion\Tests\Support\Process;
use Pillion\ToolRegistry;

/**
 * McpClient through the sidecar, whose server `everything` also lists failing tools.
 *
 * @group library
 */
final class McpClientTest extends TestCase
{
    private McpClient $client;

    protected function setUp(): void
    {
        $this->client = new McpClient(str_replace('/sse', '/everything', FakeServer::url()));
    }

    public function testToolsAreListedAndCalled(): void
    {
        self::assertTrue($this->client->isAvailable());
        $tools = array_column($this->client->listTools(), null, 'name');
        self::assertStringStartsWith('{"type":"object","properties":{}', json_encode($tools['echo']['inputSchema']), 'an empty map stays one');
        $result = $this->client->callTool('roll', ['dice' => '1d20'], ['id' => 'c1']);
        self::assertSame(['c1', 'roll', true, ['total' => 15, 'rolls' => [15]]], [$result->toolCallId, $result->toolName, $result->success, $result->result]);
        $values = $this->client->callTool('values')->result;
        self::assertEquals(new \stdClass(), $values['empty'], 'an empty object stays one');
        self::assertSame('{"0":"a","1":["b",{"0":{}},{"1":"c"},{"00":"d"}]}', json_encode($values['counted']));
        self::assertSame(15, $this->client->request('tools/call', ['name' => 'roll', 'arguments' => ['dice' => '1d20']])['total']);
    }

    public function testE10AToolThatFailsIsAFailedResult(): void
    {
        $result = $this->client->callTool('fails');
        self::assertSame([false, 'It is broken', 'internal_error', true], [$result->success, $result->error, $result->errorCode, $result->result['isError']]);
        Expect::exception(JsonRpcException::class, fn () => $this->client->callTool('rpc_error'));
    }

    public function testConcurrentCallsDoNotAffectEachOther(): void
    {
        $started = microtime(true);
        $results = $this->client->callTools([
            ['name' => 'slow', 'arguments' => ['seconds' => 1.5], 'id' => 'a'],
            ['name' => 'nope'],
            ['name' => 'rpc_error'],
            ['name' => 'slow', 'arguments' => '{"seconds": 1.5}', 'id' => 'd'],
        ]);
        self::assertLessThan(2.9, microtime(true) - $started, 'one after the other they take 3 s');
        self::assertSame(['a', '', '', 'd'], array_column($results, 'toolCallId'));
        self::assertSame([null, 'not_found', 'invalid_input', null], array_column($results, 'errorCode'));
        self::assertSame([], $this->client->callTools([]));
    }

    public function testAStreamHasTheResultWithoutProgress(): void
    {
        $stream = $this->client->streamTool('roll', ['dice' => '1d20']);
        self::assertSame([], iterator_to_array($stream));
        self::assertSame(15, $stream->getResult()->result['total']);
    }

    public function testAFailedStreamThrowsAgainWithoutANewRequest(): void
    {
        $started = 0;
        $stream = $this->client->setEventDispatcher(new Dispatcher(function (object $event) use (&$started): void {
            $started += $event instanceof ToolCallStarted ? 1 : 0;
        }))->streamTool('slow', ['seconds' => 5], ['timeout' => 0.2]);
        try {
            foreach ($stream as $progress) {
            }
            self::fail('It took too long');
        } catch (TimeoutException) {
        }
        foreach ([fn () => $stream->getResult(), fn () => $stream->valid(), fn () => iterator_to_array($stream)] as $again) {
            $e = Expect::exception(\Error::class, $again(...));
            self::assertSame('The tool call has ended without a result', $e->getMessage());
        }
        self::assertSame(1, $started);
    }

    /** @dataProvider throwingListeners */
    public function testStartAndEndOfCallsAreEvents(string $throwAt, array $expected): void
    {
        $reported = $seconds = [];
        $this->client->setEventDispatcher(new Dispatcher(function (object $event) use (&$reported, &$seconds, $throwAt): void {
            if ($event instanceof ToolsListed) {
                return;
            }
            $what = $event instanceof ToolCallStarted ? 'start' : 'end';
            $reported[] = "$what $event->toolCallId" . ($what === 'end' ? ' ' . ($event->errorCode ?? 'ok') : '');
            if ($what === 'end') {
                $seconds[] = $event->seconds;
            }
            end($reported) === $throwAt && throw new \DomainException($throwAt);
        }));
        try {
            $this->client->callTools([
                ['name' => 'slow', 'arguments' => ['seconds' => 0.3], 'id' => 'a'],
                ['name' => 'fails', 'id' => 'b'],
                ['name' => 'nope', 'id' => 'c'],
            ]);
            self::assertSame('', $throwAt);
            self::assertGreaterThan(0.3, min($seconds), 'the time of the calls');
        } catch (\DomainException $e) {
            self::assertSame($throwAt, $e->getMessage());
        }
        self::assertSame($expected, $reported);
    }

    public static function throwingListeners(): iterable
    {
        $all = ['start a', 'start b', 'start c', 'end a ok', 'end b internal_error', 'end c not_found'];
        yield 'no listener throws' => ['', $all];
        yield 'at an end' => ['end a ok', $all];
        yield 'at a start' => ['start b', ['start a', 'start b', 'end a internal_error', 'end b internal_error']];
    }

    public function testACallHasItsOwnTimeout(): void
    {
        Expect::exception(TimeoutException::class, fn () => $this->client->callTool('slow', ['seconds' => 5], ['timeout' => 0.2]));
    }

    public function testATokenCancelsACall(): void
    {
        $token = new CancellationToken();
        $token->cancel('not needed');
        $token->cancel('again');
        self::assertTrue($token->isCancelled());
        $e = Expect::exception(CancelledException::class, fn () => $this->client->callTool('slow', ['seconds' => 5], ['cancellation' => $token]));
        self::assertSame(['The call was cancelled: not needed', 'cancelled'], [$e->getMessage(), $e->errorCode]);
        $url = var_export(FakeServer::url(), true);
        $code = <<<PHP
            pcntl_async_signals(true);
            \$token = new Pillion\CancellationToken();
            pcntl_signal(SIGALRM, fn () => \$token->cancel());
            \$client = new Pillion\McpClient($url);
            \$client->listTools();
            pcntl_alarm(1);
            \$started = microtime(true);
            try {
                \$client->callTool('slow', ['seconds' => 10], ['cancellation' => \$token]);
            } catch (Pillion\Exception\CancelledException \$e) {
                echo \$e->getMessage(), microtime(true) - \$started < 5 ? ' in time' : ' late';
            }
            PHP;
        self::assertSame('The call was cancelled in time', Process::php($code)['output']);
        self::assertSame('The call was cancelled in time', Process::php($code, ['-n'])['output'], 'with streams');
    }

    /** @dataProvider withoutSidecar */
    public function testMethodsThatTheSidecarLacksNeedTheExtension(\Closure $call): void
    {
        Expect::exception(UnavailableException::class, fn () => $call($this->client), ': install the extension ext-pillion');
    }

    public static function withoutSidecar(): iterable
    {
        yield 'a request' => [fn (McpClient $client) => $client->request('prompts/list')];
        yield 'a notification' => [fn (McpClient $client) => $client->notify('x')];
        yield 'resources' => [fn (McpClient $client) => $client->readResource('file:///a')];
        yield 'prompts' => [fn (McpClient $client) => $client->getPrompt('p')];
        yield 'sampling' => [fn (McpClient $client) => $client->onSampling(fn () => null)];
        yield 'roots' => [fn (McpClient $client) => $client->setRoots(['file:///a'])];
        yield 'roots as an option' => [fn () => new McpClient('http://localhost/', ['roots' => ['file:///a']])];
        yield 'roots with the server' => [fn () => new McpClient(['url' => 'http://localhost/', 'roots' => ['file:///a']])];
        yield 'meta' => [fn (McpClient $client) => $client->callTool('roll', [], ['meta' => ['a' => 1]])];
        yield 'server info' => [fn (McpClient $client) => $client->getServerInfo()];
    }

    public function testCallbacksAndRootsMayBeUnset(): void
    {
        self::assertSame($this->client, $this->client->onSampling(null)->onElicitation(null)->onNotification(null)->setRoots([]));
        self::assertInstanceOf(McpClient::class, new McpClient('http://localhost/', ['roots' => []]));
    }

    /** @dataProvider wrong */
    public function testWrongOptionsAreNamed(\Closure $call, string $message): void
    {
        Expect::exception(InvalidInputException::class, fn () => $call($this->client), $message);
    }

    public static function wrong(): iterable
    {
        yield 'unknown of a client' => [
            fn () => new McpClient('http://localhost/', ['tiemout' => 5]),
            "Unknown option 'tiemout', expected one of label, transport, handshake, protocol_version, authentication, headers, token_in_query, limits, allow_http, egress, timeout, api_key,",
        ];
        yield 'an option twice' => [fn () => new McpClient(['url' => 'http://localhost/', 'timeout' => 1], ['timeout' => 2]), "'timeout' is set twice"];
        yield 'no time' => [fn () => new McpClient('http://localhost/', ['timeout' => 0]), "'timeout': at least 0.001 seconds are required"];
        yield 'unknown' => [fn (McpClient $client) => $client->callTool('x', [], ['timout' => 5]), "Unknown option 'timout'"];
        yield 'a type' => [fn (McpClient $client) => $client->callTool('x', [], ['timeout' => 'soon']), "The option 'timeout' must be a number of seconds, string given"];
        yield 'no call' => [fn (McpClient $client) => $client->callTools([5]), 'A call must be a Pillion\ToolCall or an array'];
        yield 'no server' => [fn () => new McpClient([]), "exactly one of 'url' and 'command'"];
        yield 'both' => [fn () => new McpClient(['url' => 'http://localhost/', 'command' => 'x']), "exactly one of 'url' and 'command'"];
        yield 'no logger' => [fn (McpClient $client) => $client->setLogger(new \stdClass()), '$logger must have the method log(), which stdClass does not have'];
    }

    public function testE8CredentialsInPhpCodeAreNeverReplaced(): void
    {
        foreach ([['api_key' => 'hush'], ['oauth' => ['client_id' => 'x']], ['headers' => ['X-User' => 'alice']]] as $options) {
            $client = new McpClient(FakeServer::url(), $options);
            self::assertFalse($client->isAvailable());
            $e = Expect::exception(UnavailableException::class, fn () => $client->callTool('roll', ['dice' => '1d20']));
            self::assertStringNotContainsString('hush', (string) $e);
        }
    }

    public function testAProgramIsFoundByItsLabel(): void
    {
        $client = new McpClient(['command' => ['npx', '-y', 'x'], 'label' => 'everything']);
        self::assertSame(15, $client->callTool('roll', ['dice' => '1d20'])->result['total']);
        $this->expectException(UnavailableException::class);
        $this->expectExceptionMessage('The sidecar has no MCP server stdio:npx');
        (new McpClient(['command' => 'npx']))->listTools();
    }

    public function testEventsAndACache(): void
    {
        $dispatcher = new Dispatcher();
        $cache = new Cache();
        $this->client->setEventDispatcher($dispatcher)->setCache($cache, 60, 'tenant');
        $first = $this->client->listTools();
        self::assertEquals($first, $this->client->listTools());
        $this->client->setCache($cache, 60, 'another')->listTools();
        self::assertSame([2, 60], [count($cache->entries), $cache->ttl]);
        $this->client->callTool('fails', options: ['id' => 'c']);
        $seen = array_map(fn (object $event) => match (true) {
            $event instanceof ToolsListed => [$event->tools, $event->fromCache],
            $event instanceof ToolCallStarted => [$event->toolName, $event->toolCallId],
            $event instanceof ToolCallFinished => [$event->success, $event->errorCode],
        }, $dispatcher->events);
        $count = count($first);
        self::assertSame([[$count, false], [$count, true], [$count, false], ['fails', 'c'], [false, 'internal_error']], $seen);
    }

    public function testAClientCannotBeQueued(): void
    {
        Expect::exception(\Exception::class, fn () => serialize($this->client), 'Serialization of a client is not allowed');
    }

    public function testARegistryAcceptsTheTools(): void
    {
        $registry = new ToolRegistry();
        self::assertContains('x_roll', $registry->registerMcpServer($this->client, prefix: 'x_'));
        self::assertSame(15, $registry->execute('x_roll', ['dice' => '1d20'], 'c')->result['total']);
    }
}
