<?php

declare(strict_types=1);

namespace Pillion\Tests;

use Pillion\CancellationToken;
use Pillion\Event\ServerConnected;
use Pillion\Event\ToolCallFinished;
use Pillion\Event\ToolCallStarted;
use Pillion\Event\ToolsChanged;
use Pillion\Event\ToolsListed;
use Pillion\Exception\InvalidInputException;
use Pillion\Exception\JsonRpcException;
use Pillion\Exception\TransportException;
use Pillion\McpClient;
use Pillion\MCPSSEClient;
use Pillion\Progress;
use Pillion\Tests\Support\Cache;
use Pillion\Tests\Support\Dispatcher;
use Pillion\Tests\Support\Expect;
use Pillion\Tests\Support\FakeServer;
use Pillion\Tests\Support\Logger;
use Pillion\ToolExecutor;
use Pillion\ToolRegistry;
use Pillion\ToolStream;
use PHPUnit\Framework\TestCase;

/**
 * Arguments, values and hooks, with a fake server.
 *
 * @group extension
 */
final class McpClientTest extends TestCase
{
    private static function client(array $options = []): McpClient
    {
        return new McpClient(FakeServer::url(), $options + ['timeout' => 20]);
    }

    /** @dataProvider badConfigurations */
    public function testBadConfigurationsAreNamed(mixed $server, array $options, string $message): void
    {
        Expect::exception(InvalidInputException::class, fn () => new McpClient($server, $options), $message);
    }

    public static function badConfigurations(): iterable
    {
        yield 'no URL' => ['not-a-url', [], 'url'];
        yield 'nothing' => [[], [], "exactly one of 'url' and 'command'"];
        yield 'both' => [['url' => 'http://localhost/', 'command' => 'sh'], [], "exactly one of 'url' and 'command'"];
        yield 'an unknown option' => ['http://localhost/', ['retries' => 3], "'retries', expected one of label, transport, handshake, protocol_version, authentication, headers, token_in_query, limits, allow_http, egress, timeout, api_key, oauth, roots, description, url, command"];
        yield 'an unknown option inside of one' => ['http://localhost/', ['egress' => ['allow' => []]], "'egress.allow': unknown field `allow`, expected one of `allow_http`"];
        yield 'an unknown key of oauth' => ['http://localhost/', ['oauth' => ['grnt' => 1]], "Invalid MCP server option 'oauth': expected one of `grant`"];
        yield 'plain http' => ['http://mcp.internal/', [], "plain http to 'mcp.internal' is not allowed: use https, or set the option 'allow_http' to true"];
        yield 'no time' => ['http://localhost/', ['timeout' => 0], "'timeout': at least 0.001 seconds are required"];
        yield 'an option twice' => [['url' => 'http://localhost/', 'timeout' => 1], ['timeout' => 2], "'timeout' is set twice"];
        yield 'roots twice' => [['url' => 'http://localhost/', 'roots' => []], ['roots' => []], "'roots' is set twice"];
        yield 'roots that are none, with the server' => [['url' => 'http://localhost/', 'roots' => 'file:///a'], [], '$roots'];
        yield 'a time that is none' => ['http://localhost/', ['timeout' => 'soon'], "'timeout'"];
        yield 'a negative time' => ['http://localhost/', ['timeout' => -1], 'timeout'];
        yield 'milliseconds' => ['http://localhost/', ['timeout_ms' => 1], "Unknown option 'timeout_ms', expected one of "];
        yield 'a key that is none' => ['http://localhost/', ['api_key' => 7], "'api_key'"];
        yield 'an empty command' => [['command' => []], [], "'command'"];
        yield 'arguments twice' => [['command' => ['sh', '-c'], 'args' => ['x']], [], "'args'"];
        yield 'two credentials' => ['http://localhost/', ['api_key' => 'k', 'oauth' => true], "'oauth'"];
        yield 'oauth that cannot be' => ['http://localhost/', ['oauth' => ['grant' => 'client_credentials']], 'client_id'];
        yield 'roots that are none' => ['http://localhost/', ['roots' => ['a' => 'b']], '$roots'];
        yield 'a list' => [['http://localhost/'], [], 'string keys'];
        yield 'invalid UTF-8' => ["http://localhost/\xff", [], 'UTF-8'];
        yield 'a header that is none' => ['http://localhost/', ['headers' => ['X-Bad' => "a\n"]], "Invalid header 'X-Bad'"];
    }

    public function testL1CredentialsAreNotShownAndTheClientCannotBeSerialized(): void
    {
        $client = self::client(['api_key' => 'sekrit', 'headers' => ['x-more' => 'sekrit']]);
        self::assertStringNotContainsString('sekrit', print_r($client, true) . var_export($client, true));
        $e = Expect::exception(InvalidInputException::class, fn () => new McpClient('not-a-url', ['api_key' => 'sekrit']));
        self::assertStringNotContainsString('sekrit', $e . print_r($e->getTrace()[0], true));
        $this->expectExceptionMessage("Serialization of 'Pillion\\McpClient' is not allowed");
        serialize($client);
    }

    /** @dataProvider hooked */
    public function testL1SettingsOfAnObjectAreNotShown(object $object, array $methods): void
    {
        $hook = new class ('sekrit') {
            public function __construct(public string $key)
            {
            }

            public function load(string $key): ?array
            {
                return ['token' => $this->key];
            }

            public function save(string $key, ?array $tokens): void
            {
            }

            public function log(): void
            {
            }

            public function dispatch(object $event): object
            {
                return $event;
            }
        };
        foreach ($methods as $method) {
            $object->$method(str_starts_with($method, 'on') ? fn () => $hook->key : $hook);
        }
        ob_start();
        var_dump($object);
        debug_zval_dump($object);
        $shown = ob_get_clean() . print_r($object, true) . print_r((array) $object, true) . print_r(get_mangled_object_vars($object), true);
        self::assertDoesNotMatchRegularExpression('/sekrit|hooks/', $shown . @var_export($object, true) . json_encode($object));
        self::assertNotContains('hooks', array_map(fn ($property) => $property->getName(), (new \ReflectionObject($object))->getProperties()));
    }

    public static function hooked(): iterable
    {
        $all = ['setLogger', 'setEventDispatcher'];
        yield 'McpClient' => [self::client(), [...$all, 'setTokenStore', 'onSampling', 'onElicitation', 'onNotification', 'onAuthorization']];
        yield 'a class of its own' => [new class (FakeServer::url()) extends McpClient {
            public string $own = 'seen';
        }, [...$all, 'setTokenStore', 'onSampling']];
        yield 'MCPSSEClient' => [new MCPSSEClient(FakeServer::url()), $all];
        yield 'ToolExecutor' => [new ToolExecutor(ToolRegistry::withBuiltins()), $all];
    }

    public function testValuesAreUnchanged(): void
    {
        $result = self::client()->callTool('values');
        self::assertInstanceOf(\stdClass::class, $result->result['empty'], '{} is not []');
        self::assertSame('{"0":"a","1":["b",{"0":{}},{"1":"c"},{"00":"d"}]}', json_encode($result->result['counted']));
        self::assertSame([1, 'two', null, true, 1.0], $result->result['list']);
        self::assertSame(PHP_INT_MAX, $result->result['max']);
        $sent = ['int' => PHP_INT_MIN, 'map' => new \stdClass(), 'list' => [], 'float' => 1.0, 'text' => "grüße\u{1F600}"];
        $body = json_decode(self::client()->request('echo', $sent)->body ?? self::client()->request('echo', $sent)['body']);
        self::assertSame(PHP_INT_MIN, $body->params->int);
        self::assertInstanceOf(\stdClass::class, $body->params->map);
        self::assertSame([[], 1.0, "grüße\u{1F600}"], [$body->params->list, $body->params->float, $body->params->text]);
    }

    /** Shows the early release of an array only with an optimized extension. */
    public function testTheOptionsOfACallStayTheCallers(): void
    {
        $client = self::client();
        $kept = ['timeout' => 20, 'on_progress' => static fn (): bool => true, 'meta' => ['a' => ['b' => 1]]];
        for ($nth = 0; $nth < 20; $nth++) {
            $result = $client->callTool('roll', ['dice' => '1d20'], ['id' => "c$nth", 'meta' => ['n' => $nth]] + $kept);
            self::assertSame(["c$nth", ['total' => 15, 'rolls' => [15]]], [$result->toolCallId, $result->result]);
            $client->callTool('roll', ['dice' => '1d20'], $kept);
        }
        self::assertSame([20, ['a' => ['b' => 1]], true], [$kept['timeout'], $kept['meta'], $kept['on_progress']()]);
    }

    /** @dataProvider badArguments */
    public function testBadArgumentsGiveClearErrors(\Closure $use, string $message): void
    {
        $client = self::client();
        try {
            $use($client);
            self::fail('It was accepted');
        } catch (InvalidInputException | \TypeError $e) {
            self::assertStringContainsString($message, $e->getMessage());
        }
        self::assertTrue($client->callTool('roll')->success, 'the client still works');
    }

    public static function badArguments(): iterable
    {
        $recursive = [];
        $recursive['self'] = &$recursive;
        yield 'a recursive array' => [fn ($c) => $c->callTool('echo', $recursive), 'contains itself'];
        yield 'a resource' => [fn ($c) => $c->callTool('echo', ['x' => STDIN]), 'resource'];
        yield 'NAN' => [fn ($c) => $c->callTool('echo', ['x' => NAN]), 'NAN'];
        yield 'invalid UTF-8' => [fn ($c) => $c->callTool('echo', ['x' => "\xff"]), 'UTF-8'];
        yield 'a name in invalid UTF-8' => [fn ($c) => $c->callTool("\xff"), 'UTF-8'];
        yield 'an unknown option' => [fn ($c) => $c->callTool('echo', [], ['wait' => 1]), "Unknown option 'wait'"];
        yield 'an option of another method' => [fn ($c) => $c->streamTool('echo', [], ['on_progress' => 'strlen']), 'on_progress'];
        yield 'a time' => [fn ($c) => $c->callTool('echo', [], ['timeout' => 'x']), "'timeout' must be a number of seconds, string given"];
        yield 'an endless time' => [fn ($c) => $c->callTool('echo', [], ['timeout' => INF]), 'timeout'];
        yield 'no callable' => [fn ($c) => $c->callTool('echo', [], ['on_progress' => 'no_such_function']), "'on_progress' must be callable, string given"];
        yield 'no token' => [fn ($c) => $c->callTool('echo', [], ['cancellation' => new \stdClass()]), 'CancellationToken, stdClass given'];
        yield 'meta' => [fn ($c) => $c->callTool('echo', [], ['meta' => [1, 2]]), "'meta'"];
        yield 'an id' => [fn ($c) => $c->callTool('echo', [], ['id' => 5]), "'id' must be a string, int given"];
        yield 'no concurrency' => [fn ($c) => $c->callTools([], ['max_concurrent' => 0]), "'max_concurrent'"];
        yield 'no call' => [fn ($c) => $c->callTools([['name' => 'roll'], 'roll']), 'entry 1 is string'];
        yield 'a call without name' => [fn ($c) => $c->callTools([['arguments' => []]]), 'entry 0'];
        yield 'a level' => [fn ($c) => $c->setLoggingLevel('loud'), '$level must be one of'];
        yield 'a callback' => [fn ($c) => $c->onSampling('no_such_function'), 'must be of type ?callable, string given'];
        yield 'a logger' => [fn ($c) => $c->setLogger(new \stdClass()), '$logger must have the method log(), which stdClass does not have'];
        yield 'a dispatcher' => [fn ($c) => $c->setEventDispatcher(new \ArrayObject()), 'dispatch()'];
        yield 'a cache' => [fn ($c) => $c->setCache(new \stdClass()), 'get()'];
        yield 'a time to live' => [fn ($c) => $c->setCache(null, -1), '$ttl'];
        yield 'a token store' => [fn ($c) => $c->setTokenStore(new \stdClass()), 'load()'];
        yield 'an authorization without oauth' => [fn ($c) => $c->startAuthorization(), "'oauth'"];
        yield 'roots' => [fn ($c) => $c->setRoots([7]), 'entry 0'];
    }

    public function testErrorsHaveTheirExceptions(): void
    {
        $e = Expect::exception(JsonRpcException::class, fn () => self::client()->callTool('rpc_error'));
        self::assertSame([-32600, 'invalid_input'], [$e->rpcCode, $e->errorCode]);
        Expect::exception(TransportException::class, fn () => (new McpClient('http://127.0.0.1:1/mcp'))->listTools());
    }

    public function testL1TheLoggerReceivesEveryLineWithoutSecrets(): void
    {
        $logger = new Logger();
        $client = self::client()->setLogger($logger);
        $client->callTool('echo', ['password' => 'hunter2']);
        self::assertSame(['debug', 'MCP Request'], array_slice($logger->lines[0], 0, 2));
        self::assertSame('tools/call', $logger->lines[0][2]['method']);
        self::assertStringNotContainsString('hunter2', json_encode($logger->lines));
        $sse = (new MCPSSEClient('http://127.0.0.1:1/sse'))->setLogger($logger);
        self::assertSame([], $sse->listTools());
        self::assertSame(['error', 'Failed to list MCP tools'], array_slice(end($logger->lines), 0, 2));
        $before = count($logger->lines);
        $client->setLogger(null)->callTool('roll');
        self::assertCount($before, $logger->lines);
    }

    public function testTheDispatcherReceivesEventsWithoutSecrets(): void
    {
        $dispatcher = new Dispatcher();
        $client = self::client(['label' => 'dice', 'headers' => ['x-new' => 'sekrit']])->setEventDispatcher($dispatcher);
        $client->listTools();
        $client->callTool('echo', ['password' => 'hunter2'], ['id' => 'c1']);
        $client->callTools([['id' => 'c2', 'name' => 'status', 'arguments' => ['status' => 500]]]);
        $classes = array_map('get_class', $dispatcher->events);
        self::assertSame([
            ServerConnected::class, ToolsListed::class,
            ToolCallStarted::class, ToolCallFinished::class, ToolCallStarted::class, ToolCallFinished::class,
        ], $classes);
        [$connected, $listed, $started, $finished, , $failed] = $dispatcher->events;
        self::assertSame(['dice', 4, false], [$connected->server, $listed->tools, $listed->fromCache]);
        self::assertSame(['echo', 'c1', 'dice'], [$started->toolName, $started->toolCallId, $started->server]);
        self::assertSame([true, null], [$finished->success, $finished->errorCode]);
        self::assertGreaterThan(0, $finished->seconds);
        self::assertSame(['c2', false, 'unavailable'], [$failed->toolCallId, $failed->success, $failed->errorCode]);
        self::assertDoesNotMatchRegularExpression('/hunter2|sekrit/', serialize(array_map('get_object_vars', $dispatcher->events)));
    }

    public function testTheExceptionOfAListenerIsThrown(): void
    {
        $dispatcher = new Dispatcher(fn (object $event) => throw new \DomainException('no ' . $event::class));
        $client = self::client()->setEventDispatcher($dispatcher);
        $e = Expect::exception(\DomainException::class, fn () => $client->callTool('roll'));
        self::assertSame('no ' . ToolCallStarted::class, $e->getMessage());
        self::assertTrue($client->setEventDispatcher(null)->callTool('roll')->success);
    }

    /** @dataProvider clients */
    public function testTheListOfToolsIsCachedForEachTenant(string $class): void
    {
        $cache = new Cache();
        $client = (new $class(FakeServer::url()))->setCache($cache, 60, 'a');
        $tools = $client->listTools();
        self::assertCount(1, $cache->entries);
        self::assertMatchesRegularExpression('/^[A-Za-z0-9_]{1,64}$/', array_key_first($cache->entries));
        self::assertSame(60, $cache->ttl);
        $cached = (new $class(FakeServer::url()))->setCache($cache, 60, 'a');
        self::assertEquals($tools, $cached->listTools());
        self::assertSame([1, 1], [$cache->hits, $cache->sets]);
        $cached->setCache($cache, 60, 'b')->listTools();
        self::assertCount(2, $cache->entries);
        // A value that is not a list counts as a missing entry.
        $cache->entries = array_fill_keys(array_keys($cache->entries), '{"not": "a list"');
        self::assertEquals($tools, $cached->listTools());
    }

    public static function clients(): iterable
    {
        yield [MCPSSEClient::class];
        yield [McpClient::class];
    }

    public function testUsersWithOtherCredentialsShareNoList(): void
    {
        $cache = new Cache();
        foreach (['alice', 'bob'] as $key) {
            self::client(['api_key' => $key])->setCache($cache)->listTools();
        }
        self::assertCount(2, $cache->entries);
        self::assertStringNotContainsString('alice', json_encode(array_keys($cache->entries)));
    }

    public function testAFailingCacheIsIgnored(): void
    {
        $cache = new class () {
            public function get($key, $default = null): mixed
            {
                throw new \RuntimeException('redis is gone');
            }

            public function set($key, $value, $ttl = null): bool
            {
                throw new \RuntimeException('redis is gone');
            }

            public function delete($key): bool
            {
                throw new \RuntimeException('redis is gone');
            }
        };
        $logger = new Logger();
        self::assertCount(4, self::client()->setCache($cache)->setLogger($logger)->listTools());
        $warnings = array_filter($logger->lines, fn (array $line) => $line[0] === 'warning');
        self::assertSame(['redis is gone', 'redis is gone'], array_values(array_map(fn (array $line) => $line[2]['error'], $warnings)));
    }

    public function testAChangeOfTheToolsClearsTheCacheAndIsAnEvent(): void
    {
        $cache = new Cache();
        $dispatcher = new Dispatcher();
        $client = self::client(['label' => 'dice', 'headers' => ['x-test' => 'changes']])->setCache($cache)->setEventDispatcher($dispatcher);
        $client->listTools();
        self::assertCount(1, $cache->entries);
        $client->callTool('notifies', ['methods' => ['notifications/tools/list_changed']]);
        self::assertSame([['dice'], []], [array_column($dispatcher->events(ToolsChanged::class), 'server'), $cache->entries]);
        $client->callTool('roll');
        self::assertCount(1, $dispatcher->events(ToolsChanged::class));
    }

    public function testNotificationsAreLimitedAndEachObjectReceivesItsOwn(): void
    {
        $received = [];
        $methods = array_map(fn (int $i) => "notifications/x$i", range(1, 400));
        $quiet = self::client();
        $client = self::client()->onNotification(function (string $method, mixed $params) use (&$received): void {
            $received[] = $method;
            self::assertEquals(new \stdClass(), $params['empty']);
        });
        $client->callTool('notifies', ['methods' => ['notifications/a', 'notifications/b']]);
        self::assertSame(['notifications/a', 'notifications/b'], $received);
        $quiet->callTool('notifies', ['methods' => $methods]);
        $client->callTool('roll');
        self::assertCount(2, $received, 'sessions without such a callback are others');
        $client->onNotification(null)->callTool('notifies', ['methods' => $methods]);
        self::assertCount(2, $received);
        $client->onNotification(fn () => throw new \DomainException('heard'));
        $this->expectExceptionMessage('heard');
        $client->callTool('notifies', ['methods' => ['notifications/a']]);
    }

    public function testValueClasses(): void
    {
        $progress = new Progress(progress: 0.5, message: 'half');
        self::assertSame([0.5, null, 'half'], [$progress->progress, $progress->total, $progress->message]);
        $event = new ToolCallStarted('echo', 'c1', null);
        self::assertSame(['echo', 'c1', null], [$event->toolName, $event->toolCallId, $event->server]);
        $token = new CancellationToken();
        $token->cancel();
        $token->cancel('later');
        self::assertTrue($token->isCancelled());
        Expect::exception(\Error::class, fn () => $progress->progress = 1.0);
    }

    public function testAStreamCannotBeMadeOrRewound(): void
    {
        $stream = self::client()->streamTool('roll');
        self::assertSame([], iterator_to_array($stream));
        self::assertSame(15, $stream->getResult()->result['total']);
        Expect::exception(\ReflectionException::class, fn () => (new \ReflectionClass(ToolStream::class))->newInstance());
    }

    public function testAFailedStreamThrowsAgain(): void
    {
        $stream = self::client()->streamTool('rpc_error');
        Expect::exception(JsonRpcException::class, fn () => $stream->getResult());
        Expect::exception(\Error::class, fn () => $stream->getResult(), 'ended without a result');
    }

    public function testItCanBeMockedAndExtended(): void
    {
        $mock = $this->createMock(McpClient::class);
        $mock->method('listTools')->willReturn([['name' => 'x']]);
        self::assertSame('x', $mock->listTools()[0]['name']);
        $client = new class (FakeServer::url()) extends McpClient {
            public function request(string $method, array $params = []): mixed
            {
                return parent::request($method, ['more' => 1] + $params);
            }
        };
        self::assertSame(1, $client->onSampling(fn () => null)->request('echo')['params']['more']);
    }

    /** @return array<string, array{array<string, mixed>}> */
    public static function wrongCredentials(): array
    {
        return [
            'headers as text' => [['headers' => 'Authorization: Bearer SECRET']],
            'a header as a list' => [['headers' => ['X' => ['SECRET']]]],
            'authentication as text' => [['authentication' => 'SECRET']],
            'an unknown way' => [['authentication' => ['type' => 'SECRET']]],
            'an unknown key' => [['authentication' => ['type' => 'bearer', 'SECRET' => 1]]],
            'oauth as text' => [['oauth' => 'SECRET']],
            'limits as text' => [['limits' => 'SECRET']],
            'egress as text' => [['egress' => 'SECRET']],
        ];
    }

    /**
     * L1.
     *
     * @dataProvider wrongCredentials
     *
     * @param array<string, mixed> $options
     */
    public function testAWrongOptionIsNamedWithoutItsValue(array $options): void
    {
        $error = Expect::exception(InvalidInputException::class, fn () => new McpClient('http://127.0.0.1:9/mcp', $options));
        self::assertStringNotContainsString('SECRET', $error->getMessage());
        self::assertStringContainsString((string) array_key_first($options), $error->getMessage());
    }

    public function testTheURLOfAClientIsNotInTraces(): void
    {
        $error = Expect::exception(InvalidInputException::class, fn () => new \Pillion\MCPSSEClient('ftp://example.org/?token=SECRET'));
        self::assertStringNotContainsString('SECRET', print_r($error->getTrace()[0], true) . $error->getMessage());
    }
}
