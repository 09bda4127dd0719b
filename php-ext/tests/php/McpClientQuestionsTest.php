<?php

declare(strict_types=1);

namespace Pillion\Tests;

use Pillion\McpClient;
use Pillion\MCPSSEClient;
use Pillion\Tests\Support\Expect;
use Pillion\Tests\Support\FakeServer;
use Pillion\Tests\Support\Logger;
use Pillion\Tests\Support\SessionServer;
use Pillion\Tests\Support\Wrapper;
use Pillion\TokenStore;
use Pillion\ToolExecutor;
use Pillion\ToolRegistry;
use PHPUnit\Framework\TestCase;

/**
 * Server requests and notifications that cannot be attributed to a call, on the one stream of a program.
 *
 * @group extension
 */
final class McpClientQuestionsTest extends TestCase
{
    private static int $count = 0;

    /** Each test has its own server. */
    private static function client(): McpClient
    {
        return new McpClient(
            ['command' => ['python3', __DIR__ . '/../servers/asks.py', (string) self::$count++]],
            ['timeout' => 10, 'label' => 'asks'],
        );
    }

    private static function text(object $result): mixed
    {
        return json_decode($result->result['content'][0]['text'], true, flags: JSON_THROW_ON_ERROR);
    }

    public function testARequestIsNotGivenToAnUnreadStream(): void
    {
        $client = self::client()->onSampling(fn () => 'because');
        $asks = $client->streamTool('ask_when_held');
        $held = $client->streamTool('hold');
        self::assertSame('because', self::text($asks->getResult())['content']['text']);
        unset($held);
    }

    public function testARequestIsGivenToTheRunningCall(): void
    {
        $client = self::client()->onElicitation(fn () => ['action' => 'accept', 'content' => []]);
        $held = null;
        $result = $client->callTool('ask_when_held', ['method' => 'elicitation/create'], [
            'on_progress' => function () use ($client, &$held): void {
                $held = $client->streamTool('hold');
            },
        ]);
        self::assertSame(['action' => 'accept', 'content' => []], self::text($result));
    }

    public function testTheNextCallAnswersARequestToAnUnreadStream(): void
    {
        $asked = 0;
        $client = self::client()->onSampling(function () use (&$asked): string {
            $asked++;
            return 'because';
        });
        $asks = $client->streamTool('ask');
        // A call that ends before the request arrives leaves the request to the next call.
        for ($calls = 0; $asked === 0 && $calls < 1000; $calls++) {
            $client->ping();
        }
        self::assertSame(1, $asked);
        self::assertSame('because', self::text($asks->getResult())['content']['text']);
        self::assertSame(1, $asked);
    }

    public function testAnUnansweredRequestOfAnEndedCallIsReassigned(): void
    {
        $client = self::client()->onSampling(fn () => 'because');
        $mark = tempnam(sys_get_temp_dir(), 'pillion');
        unlink($mark);
        $asks = $client->streamTool('ask', ['mark' => $mark]);
        while (!file_exists($mark)) {
            usleep(10_000);
            clearstatcache();
        }
        unlink($mark);
        usleep(100_000);
        $answer = $client->streamTool('answer');
        unset($asks);
        self::assertSame('because', self::text($answer->getResult())['content']['text']);
    }

    public function testAnUnansweredRequestOfAFailedCallIsReassigned(): void
    {
        $client = self::client()->onSampling(fn () => 'because');
        $answer = $client->streamTool('answer');
        $held = null;
        try {
            $client->callTool('ask_when_held', [], ['on_progress' => function () use ($client, &$held): void {
                $held = $client->streamTool('hold');
                throw new \DomainException('enough');
            }]);
            self::fail('It went on');
        } catch (\DomainException) {
            self::assertSame('because', self::text($answer->getResult())['content']['text']);
        }
    }

    public function testARequestWithoutAWaitingCallIsRejected(): void
    {
        $client = self::client()->onSampling(fn () => throw new \DomainException('no'));
        Expect::exception(\DomainException::class, fn () => $client->callTool('ask'));
        self::assertSame('No PHP thread is available to answer the request', self::text($client->callTool('answer'))['message']);
    }

    /** @dataProvider runs */
    public function testTheClientOfARegisteredToolAnswersItsRequests(\Closure $run): void
    {
        $registry = new ToolRegistry();
        $client = self::client()
            ->onSampling(fn (array $params) => 'because: ' . $params['messages'][0]['content']['text'])
            ->onElicitation(fn () => ['action' => 'decline']);
        $registry->registerMcpServer($client, prefix: 'a_');
        // Another server, whose requests go to another client.
        $registry->registerMcpServer(self::client()->onSampling(fn () => 'the other'), prefix: 'b_');
        // The registry keeps the clients alive.
        unset($client);
        gc_collect_cycles();
        $results = $run($registry);
        self::assertSame('because: why?', self::text($results[0])['content']['text']);
        self::assertSame('the other', self::text($results[1])['content']['text']);
        self::assertSame(['action' => 'decline'], self::text($results[2]));
    }

    public static function runs(): iterable
    {
        $calls = [
            ['id' => '1', 'name' => 'a_ask', 'arguments' => []],
            ['id' => '2', 'name' => 'b_ask', 'arguments' => []],
            ['id' => '3', 'name' => 'a_ask', 'arguments' => ['method' => 'elicitation/create']],
        ];
        yield 'executeAll' => [fn ($registry) => (new ToolExecutor($registry))->executeAll($calls)];
        yield 'executeParallel' => [fn ($registry) => (new ToolExecutor($registry))->executeParallel($calls)];
        yield 'the registry' => [fn ($registry) => array_map(fn ($call) => $registry->execute($call['name'], $call['arguments'], $call['id']), $calls)];
        yield 'the tools themselves' => [fn ($registry) => array_map(fn ($call) => $registry->get($call['name'])->execute($call['arguments'], $call['id']), $calls)];
        yield 'another registry' => [function ($registry) use ($calls) {
            $second = new ToolRegistry();
            array_map($second->register(...), [$registry->get('a_ask'), $registry->get('b_ask')]);
            unset($registry);
            return (new ToolExecutor($second))->executeAll($calls);
        }];
        yield 'a forked child' => [function ($registry) use ($calls) {
            (new ToolExecutor($registry))->executeAll($calls);
            [$ours, $theirs] = stream_socket_pair(STREAM_PF_UNIX, STREAM_SOCK_STREAM, 0);
            if (pcntl_fork() === 0) {
                fwrite($theirs, serialize(array_map(fn ($result) => $result->result, (new ToolExecutor($registry))->executeAll($calls))));
                posix_kill(getmypid(), SIGKILL);
            }
            fclose($theirs);
            pcntl_wait($status);
            return array_map(fn ($result) => (object) ['result' => $result], unserialize((string) stream_get_contents($ours)));
        }];
    }

    public function testACallbackSetLaterOrThrowingIsUsed(): void
    {
        $registry = new ToolRegistry();
        $client = self::client();
        $registry->registerMcpServer($client);
        $executor = new ToolExecutor($registry);
        $ask = ['id' => '1', 'name' => 'ask', 'arguments' => []];
        self::assertSame(-32601, self::text($executor->execute($ask))['code'], 'nothing is offered');
        $client->onSampling(fn () => 'now');
        self::assertSame('now', self::text($executor->execute($ask))['content']['text']);
        $client->onSampling(fn () => throw new \DomainException('no model here'));
        $e = Expect::exception(\DomainException::class, fn () => $executor->execute($ask));
        self::assertSame('no model here', $e->getMessage());
        $client->onSampling(null);
        self::assertSame(-32601, self::text($executor->execute($ask))['code']);
    }

    public function testACallbackSetLaterDoesNotReplaceAWrappingTool(): void
    {
        $registry = new ToolRegistry();
        $client = self::client();
        $registry->registerMcpServer($client);
        $wrapper = Wrapper::around($registry->get('ask'));
        $registry->register($wrapper, replace: true);
        $client->onSampling(fn () => 'now');
        self::assertSame('now', self::text($registry->execute('ask', [], '1'))['content']['text'], 'the wrapped tool follows its client');
        self::assertSame([1, $wrapper], [$wrapper->calls, $registry->get('ask')]);
        self::assertSame('now', self::text((new ToolExecutor($registry))->execute(['id' => '2', 'name' => 'ask', 'arguments' => []]))['content']['text']);
        self::assertSame(2, $wrapper->calls);
    }

    public function testACallbackSetLaterAppliesInOtherRegistries(): void
    {
        [$first, $second] = [new ToolRegistry(), new ToolRegistry()];
        $client = self::client();
        $first->registerMcpServer($client);
        $tool = $first->get('ask');
        $second->register($tool);
        $first->unregister('ask');
        foreach ([fn () => $tool->execute([], '1'), fn () => $second->execute('ask', [], '1')] as $ask) {
            $client->onSampling(null);
            self::assertSame(-32601, self::text($ask())['code'], 'nothing is offered');
            $client->onSampling(fn () => 'now');
            self::assertSame('now', self::text($ask())['content']['text']);
        }
    }

    public function testF6ASkippedToolIsLoggedByTheClient(): void
    {
        $logger = new Logger();
        $log = tempnam(sys_get_temp_dir(), 'pillion');
        $before = ini_set('error_log', $log);
        try {
            foreach ([new McpClient(FakeServer::url()), new MCPSSEClient(FakeServer::url())] as $client) {
                (new ToolRegistry())->registerMcpServer($client->setLogger($logger));
            }
            self::assertSame('', file_get_contents($log));
            (new ToolRegistry())->registerMcpServer(new MCPSSEClient(FakeServer::url()));
            self::assertStringContainsString('MCP tool skipped', (string) file_get_contents($log));
        } finally {
            ini_set('error_log', (string) $before);
            unlink($log);
        }
        $lines = array_values(array_filter($logger->lines, fn (array $line) => $line[0] !== 'debug'));
        self::assertSame([['warning', 'MCP tool skipped'], ['warning', 'MCP tool skipped']], array_map(fn ($line) => array_slice($line, 0, 2), $lines));
        self::assertStringContainsString('not_a_name', $lines[0][2]['error']);
        self::assertSame(FakeServer::url(), $lines[1][2]['url']);
    }

    public function testAServerThatKeepsSendingDelaysNoCall(): void
    {
        $received = 0;
        $client = self::client()->onNotification(function () use (&$received): void {
            usleep(1_000);
            ++$received > 2_000 && throw new \DomainException('The call is held up');
        });
        self::assertSame('done', self::text($client->callTool('chatter')));
        $client->ping();
        self::assertGreaterThan(0, $received);
        $client->disconnect();
    }

    /** Returns the result of a forked child, as JSON. */
    private static function inAChild(\Closure $work): mixed
    {
        [$ours, $theirs] = stream_socket_pair(STREAM_PF_UNIX, STREAM_SOCK_STREAM, 0);
        if (pcntl_fork() === 0) {
            fwrite($theirs, (string) json_encode($work()));
            posix_kill(getmypid(), SIGKILL);
        }
        fclose($theirs);
        pcntl_wait($status);
        return json_decode((string) stream_get_contents($ours), true);
    }

    /** @dataProvider places */
    public function testToolsInAForkedChildHaveTheirOwnConnections(\Closure $place): void
    {
        $server = new SessionServer();
        // The tool without a client gets its connection in another way.
        foreach ([new McpClient($server->url, ['timeout' => 5]), ['server_url' => $server->url, 'timeout' => 5]] as $entry) {
            $registry = new ToolRegistry();
            $registry->registerMcpServer($entry);
            $who = $place($registry);
            $session = static function () use ($who): ?string {
                $result = $who();
                return $result->error ?? $result->result['session'];
            };
            $mine = $session();
            [$childs, $grandchilds] = self::inAChild(fn () => [$session(), self::inAChild($session)]);
            self::assertSame([32, 32, 32], array_map(strlen(...), [$mine, $childs, $grandchilds]), "$mine $childs $grandchilds");
            self::assertCount(3, array_unique([$mine, $childs, $grandchilds]));
            self::assertSame($mine, $session());
        }
        $server->stop();
    }

    public static function places(): iterable
    {
        yield 'the registry' => [fn (ToolRegistry $first) => fn () => $first->execute('who', [], '1')];
        yield 'the tool itself' => [function (ToolRegistry $first) {
            $tool = $first->get('who');
            return fn () => $tool->execute([], '1');
        }];
        yield 'another registry' => [function (ToolRegistry $first) {
            $second = new ToolRegistry();
            $second->register($first->get('who'));
            $executor = new ToolExecutor($second);
            return fn () => $executor->execute(['id' => '1', 'name' => 'who', 'arguments' => []]);
        }];
        yield 'a wrapper' => [function (ToolRegistry $first) {
            $first->register(Wrapper::around($first->get('who')), replace: true);
            return fn () => $first->execute('who', [], '1');
        }];
    }

    public function testAForkedChildGetsItsOwnConnectionsAfterAFailedAttempt(): void
    {
        $store = new class () implements TokenStore {
            public bool $throws = false;

            public function load(string $key): ?array
            {
                return $this->throws ? throw new \DomainException('disk full') : null;
            }

            public function save(string $key, #[\SensitiveParameter] ?array $tokens): void
            {
            }
        };
        $client = new McpClient(FakeServer::url(), ['oauth' => ['redirect_uri' => 'http://127.0.0.1:8123/callback']]);
        $registry = new ToolRegistry();
        $registry->registerMcpServer($client->setTokenStore($store));
        $executor = new ToolExecutor($registry);
        $roll = ['id' => '1', 'name' => 'roll', 'arguments' => ['dice' => '1d6']];
        self::assertTrue($executor->execute($roll)->success);
        $reported = self::inAChild(function () use ($store, $executor, $roll): array {
            $store->throws = true;
            try {
                $executor->execute($roll);
                return ['It went on'];
            } catch (\DomainException $e) {
                $store->throws = false;
                return [$e->getMessage(), $executor->execute($roll)->result];
            }
        });
        self::assertSame(['disk full', ['total' => 15, 'rolls' => [15]]], $reported);
    }
}
