<?php

declare(strict_types=1);

namespace Pillion\Tests;

use Pillion\CancellationToken;
use Pillion\Exception\AuthorizationException;
use Pillion\Exception\CancelledException;
use Pillion\Exception\InvalidInputException;
use Pillion\Exception\JsonRpcException;
use Pillion\Exception\TimeoutException;
use Pillion\McpClient;
use Pillion\Progress;
use Pillion\Tests\Support\Expect;
use Pillion\Tests\Support\Peer;
use Pillion\Tests\Support\Process;
use Pillion\ToolCall;
use Pillion\ToolRegistry;
use PHPUnit\Framework\TestCase;

/**
 * McpClient with real MCP servers.
 *
 * @group extension
 */
final class McpClientPeersTest extends TestCase
{
    private static function client(string $peer = 'everything', array $options = []): McpClient
    {
        return new McpClient(Peer::url($peer), $options + ['timeout' => 30]);
    }

    private static function stdio(): McpClient
    {
        return new McpClient(['command' => Peer::command('everything-stdio')], ['timeout' => 60]);
    }

    public function testServerInformation(): void
    {
        $info = self::client()->getServerInfo();
        self::assertSame(['name', 'version', 'protocol_version', 'transport', 'capabilities', 'instructions'], array_keys($info));
        self::assertStringContainsString('everything', $info['name']);
        self::assertSame('streamable_http', $info['transport']);
        self::assertArrayHasKey('tools', $info['capabilities']);
        self::assertMatchesRegularExpression('/^20\d\d-\d\d-\d\d$/', $info['protocol_version']);
    }

    public function testToolsResourcesPromptsAndCompletion(): void
    {
        $client = self::client();
        $client->ping();
        self::assertTrue($client->isAvailable());
        self::assertContains('echo', array_column($client->listTools(), 'name'));
        $result = $client->callTool('echo', ['message' => 'grüße'], ['id' => 'c1']);
        self::assertSame(['c1', 'echo', true, null], [$result->toolCallId, $result->toolName, $result->success, $result->error]);
        self::assertSame('Echo: grüße', $result->result['content'][0]['text']);
        $resources = $client->listResources();
        self::assertNotEmpty($resources);
        self::assertNotEmpty($client->readResource($resources[0]['uri'])['contents']);
        self::assertNotEmpty($client->listResourceTemplates());
        $prompts = array_column($client->listPrompts(), 'name');
        self::assertContains('args-prompt', $prompts);
        $prompt = $client->getPrompt('args-prompt', ['city' => 'Oslo']);
        self::assertStringContainsString('Oslo', $prompt['messages'][0]['content']['text']);
        $completion = $client->complete(['type' => 'ref/prompt', 'name' => 'completable-prompt'], 'department', 'E');
        self::assertContains('Engineering', $completion['values']);
        $completion = $client->complete(['type' => 'ref/prompt', 'name' => 'completable-prompt'], 'name', '', ['department' => 'Engineering']);
        self::assertNotEmpty($completion['values']);
    }

    public function testE10AToolThatFailsIsAFailedResult(): void
    {
        $result = self::client('mcp1-sse')->callTool('fail', ['message' => 'broken']);
        self::assertSame([false, 'internal_error'], [$result->success, $result->errorCode]);
        self::assertStringContainsString('broken', $result->error);
        self::assertTrue($result->result['isError']);
    }

    public function testTheCallbackReceivesProgress(): void
    {
        $received = [];
        $result = self::client()->callTool('trigger-long-running-operation', ['duration' => 1, 'steps' => 4], [
            'id' => 'long',
            'on_progress' => function (Progress $progress, string $id) use (&$received): void {
                $received[] = [$progress->progress, $progress->total, $id];
            },
        ]);
        self::assertTrue($result->success);
        self::assertSame([[1.0, 4.0, 'long'], [2.0, 4.0, 'long'], [3.0, 4.0, 'long'], [4.0, 4.0, 'long']], $received);
    }

    public function testAProgressCallbackMayThrow(): void
    {
        $client = self::client();
        $e = Expect::exception(\DomainException::class, fn () => $client->callTool('trigger-long-running-operation', ['duration' => 2, 'steps' => 4], [
            'on_progress' => fn () => throw new \DomainException('enough'),
        ]));
        self::assertSame('enough', $e->getMessage());
        self::assertTrue($client->callTool('echo', ['message' => 'still there'])->success);
    }

    public function testATokenCancelsACall(): void
    {
        $client = self::client();
        $token = new CancellationToken();
        self::assertFalse($token->isCancelled());
        $started = microtime(true);
        $e = Expect::exception(CancelledException::class, fn () => $client->callTool('trigger-long-running-operation', ['duration' => 20, 'steps' => 100], [
            'cancellation' => $token,
            'on_progress' => fn () => $token->cancel('seen enough'),
        ]));
        self::assertSame(['cancelled', 'The call was cancelled: seen enough'], [$e->errorCode, $e->getMessage()]);
        self::assertLessThan(10, microtime(true) - $started);
        self::assertTrue($token->isCancelled());
        Expect::exception(CancelledException::class, fn () => $client->callTool('echo', ['message' => 'x'], ['cancellation' => $token]));
    }

    public function testACallHasItsOwnTimeout(): void
    {
        $this->expectException(TimeoutException::class);
        self::client()->callTool('trigger-long-running-operation', ['duration' => 20, 'steps' => 2], ['timeout' => 0.3]);
    }

    public function testConcurrentCallsDoNotAffectEachOther(): void
    {
        $ids = [];
        $results = self::client('mcp2-http')->callTools([
            ['id' => 'a', 'name' => 'add', 'arguments' => ['a' => 1, 'b' => 2]],
            new ToolCall('b', 'add', '{"a": 20, "b": 22}'),
            new ToolCall('c', 'add', '{"a": 20, '),
            ['name' => 'no_such_tool'],
            ['id' => 'e', 'name' => 'add', 'arguments' => '{"a":"x"}'],
        ], ['on_progress' => function (Progress $p, string $id) use (&$ids) { $ids[] = $id; }]);
        self::assertSame([true, true, false, false, false], array_column($results, 'success'));
        self::assertSame(['a', 'b', 'c'], array_slice(array_column($results, 'toolCallId'), 0, 3));
        self::assertNotSame('', $results[3]->toolCallId);
        self::assertSame(['3', '42'], [$results[0]->result['content'][0]['text'], $results[1]->result['content'][0]['text']]);
        self::assertSame('invalid_input', $results[2]->errorCode);
        self::assertSame([], self::client()->callTools([]));
    }

    public function testEightSlowCallsRunConcurrently(): void
    {
        $client = self::client('mcp2-http');
        $client->ping();
        $started = microtime(true);
        $results = $client->callTools(array_fill(0, 8, ['name' => 'slow', 'arguments' => ['seconds' => 0.5]]));
        self::assertLessThan(3.5, microtime(true) - $started, 'one after the other they take 4 s');
        self::assertSame(array_fill(0, 8, true), array_column($results, 'success'));
    }

    public function testAStreamYieldsProgressAndThenTheResult(): void
    {
        $stream = self::client()->streamTool('trigger-long-running-operation', ['duration' => 1, 'steps' => 3], ['id' => 's']);
        $received = [];
        foreach ($stream as $index => $progress) {
            $received[$index] = $progress->progress;
        }
        self::assertSame([1.0, 2.0, 3.0], $received);
        self::assertTrue($stream->getResult()->success);
        self::assertSame('s', $stream->getResult()->toolCallId);
        self::assertFalse($stream->valid());
        $unread = self::client()->streamTool('echo', ['message' => 'at once']);
        self::assertSame('Echo: at once', $unread->getResult()->result['content'][0]['text']);
    }

    public function testADroppedStreamCancelsItsCall(): void
    {
        $client = self::client();
        $started = microtime(true);
        foreach ($client->streamTool('trigger-long-running-operation', ['duration' => 20, 'steps' => 100]) as $progress) {
            break;
        }
        unset($stream);
        self::assertTrue($client->callTool('echo', ['message' => 'x'])->success);
        self::assertLessThan(10, microtime(true) - $started);
    }

    public function testAStreamThrowsWhatACallThrows(): void
    {
        $token = new CancellationToken();
        $stream = self::client()->streamTool('trigger-long-running-operation', ['duration' => 20, 'steps' => 100], ['cancellation' => $token]);
        $this->expectException(CancelledException::class);
        foreach ($stream as $progress) {
            $token->cancel();
        }
    }

    /** @dataProvider shapes */
    public function testTheWaitingObjectAnswersSampling(string $shape): void
    {
        $client = $shape === 'stdio' ? self::stdio() : self::client($shape);
        $asked = [];
        $client->onSampling(function (array $params) use (&$asked, $client): array {
            $asked[] = $params['messages'][0]['content']['text'] ?? null;
            // The same object, during its own call.
            self::assertSame('Echo: inside', $client->callTool('echo', ['message' => 'inside'])->result['content'][0]['text']);
            return ['role' => 'assistant', 'model' => 'test', 'content' => ['type' => 'text', 'text' => 'sampled!']];
        });
        self::assertContains('trigger-sampling-request', array_column($client->listTools(), 'name'));
        $result = $client->callTool('trigger-sampling-request', ['prompt' => 'why?', 'maxTokens' => 10]);
        self::assertStringContainsString('sampled!', $result->result['content'][0]['text']);
        self::assertCount(1, $asked);
        $client->disconnect();
    }

    public static function shapes(): iterable
    {
        yield 'Streamable HTTP' => ['everything'];
        yield 'legacy SSE' => ['everything-sse'];
        yield 'stdio' => ['stdio'];
    }

    public function testSamplingMayBeRejectedOrAnsweredWithAString(): void
    {
        $text = fn ($result) => $result->result['content'][0]['text'];
        $client = self::client()->onSampling(fn () => 'short answer');
        self::assertStringContainsString('short answer', $text($client->callTool('trigger-sampling-request', ['prompt' => 'x'])));
        $client->onSampling(fn () => null);
        $refused = $client->callTool('trigger-sampling-request', ['prompt' => 'x']);
        self::assertFalse($refused->success);
        self::assertStringContainsString('rejected', $refused->error);
    }

    public function testAfterAThrowingCallbackTheClientWorks(): void
    {
        $client = self::client()->onSampling(fn () => throw new \LogicException('no model here'));
        $e = Expect::exception(\LogicException::class, fn () => $client->callTool('trigger-sampling-request', ['prompt' => 'x']));
        self::assertSame('no model here', $e->getMessage());
        self::assertTrue($client->callTool('echo', ['message' => 'x'])->success);
        $client->onSampling(fn () => 7);
        Expect::exception(InvalidInputException::class, fn () => $client->callTool('trigger-sampling-request', ['prompt' => 'x']), 'int returned');
    }

    /** @dataProvider endings */
    public function testACallbackMayEndTheRequestOrFork(string $callback, string $printed): void
    {
        self::client();
        $url = Peer::url('everything');
        $ran = Process::php(<<<PHP
            register_shutdown_function(function () { echo ' shutdown'; });
            \$client = new Pillion\McpClient('$url', ['timeout' => 20]);
            \$client->onSampling(function () { $callback });
            try {
                \$result = \$client->callTool('trigger-sampling-request', ['prompt' => 'x']);
                echo str_contains(\$result->result['content'][0]['text'], 'sampled') ? 'parent' : 'other';
            } catch (Error \$e) {
                echo 'child: ', strstr(\$e->getMessage(), 'only the parent');
                posix_kill(getmypid(), SIGKILL);
            }
            pcntl_wait(\$status);
            PHP);
        self::assertSame($printed, preg_replace('/\s*PHP Fatal.*|\nFatal error: .* in .*\n/', 'fatal', $ran['output']));
    }

    public static function endings(): iterable
    {
        yield 'exit' => ['echo "bye"; exit;', 'bye shutdown'];
        yield 'a fork' => ['if (pcntl_fork()) { usleep(300000); } return "sampled";', 'child: only the parent continues the callparent shutdown'];
        yield 'a fatal error' => ['trigger_error("broken", E_USER_ERROR);', 'fatal shutdown'];
    }

    public function testTwoObjectsOfOneConfigurationAnswerForThemselves(): void
    {
        $inner = self::client()->onSampling(fn () => 'of the inner');
        $outer = self::client()->onSampling(function () use ($inner) {
            $text = $inner->callTool('trigger-sampling-request', ['prompt' => 'i'])->result['content'][0]['text'];
            return "of the outer, after: $text";
        });
        $text = $outer->callTool('trigger-sampling-request', ['prompt' => 'o'])->result['content'][0]['text'];
        self::assertStringContainsString('of the outer, after', $text);
        self::assertStringContainsString('of the inner', $text);
    }

    public function testElicitation(): void
    {
        $client = self::client()->onElicitation(function (array $params): array {
            self::assertArrayHasKey('requestedSchema', $params);
            return ['action' => 'accept', 'content' => ['name' => 'Ada']];
        });
        $result = $client->callTool('trigger-elicitation-request');
        self::assertStringContainsString('Ada', json_encode($result->result));
        $client->onElicitation(fn () => null);
        self::assertStringContainsString('declined', json_encode($client->callTool('trigger-elicitation-request')->result));
    }

    public function testRoots(): void
    {
        $client = new McpClient(['url' => Peer::url('everything'), 'roots' => ['file:///srv/work']], ['timeout' => 30]);
        self::assertStringContainsString('file:///srv/work', json_encode($client->callTool('get-roots-list')->result, JSON_UNESCAPED_SLASHES));
        $client = self::client(options: ['roots' => ['file:///srv/project']]);
        self::assertStringContainsString('file:///srv/project', json_encode($client->callTool('get-roots-list')->result, JSON_UNESCAPED_SLASHES));
        $client->setRoots([['uri' => 'file:///other', 'name' => 'second']]);
        self::assertStringContainsString('second', json_encode($client->callTool('get-roots-list')->result));
        Expect::exception(InvalidInputException::class, fn () => $client->setRoots(['file:///a', ['name' => 'b']]), 'entry 1');
    }

    public function testNotifications(): void
    {
        $received = [];
        $client = self::client()->onNotification(function (string $method, mixed $params) use (&$received): void {
            $received[$method][] = $params;
        });
        $client->setLoggingLevel('debug');
        $client->callTool('toggle-simulated-logging');
        $until = microtime(true) + 20;
        while (!isset($received['notifications/message']) && microtime(true) < $until) {
            usleep(100_000);
            $client->ping();
        }
        $client->callTool('toggle-simulated-logging');
        self::assertArrayHasKey('level', $received['notifications/message'][0]);
    }

    public function testADisconnectedClientReconnects(): void
    {
        $client = self::client();
        $client->disconnect();
        $client->ping();
        $client->disconnect();
        $client->disconnect();
        self::assertTrue($client->callTool('echo', ['message' => 'x'])->success);
    }

    public function testAProgram(): void
    {
        $client = self::stdio();
        self::assertSame('stdio', $client->getServerInfo()['transport']);
        self::assertSame('Echo: hi', $client->callTool('echo', ['message' => 'hi'])->result['content'][0]['text']);
        $client->disconnect();
    }

    public function testE8AServerThatRequiresABearerToken(): void
    {
        $e = Expect::exception(AuthorizationException::class, fn () => self::client('fastmcp-bearer')->ping());
        self::assertSame([401, 'denied'], [$e->httpStatus, $e->errorCode]);
        self::assertStringStartsWith('Bearer', $e->challenge);
    }

    public function testAnErrorOfTheServerIsAnException(): void
    {
        Expect::exception(JsonRpcException::class, fn () => self::client()->readResource('no:such/resource'));
    }

    public function testARegistryAcceptsTheTools(): void
    {
        $registry = new ToolRegistry();
        $registry->registerMcpServer(self::client(), prefix: 'e_');
        self::assertTrue($registry->execute('e_echo', ['message' => 'hi'], '1')->success);
    }
}
