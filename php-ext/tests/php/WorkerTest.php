<?php

declare(strict_types=1);

namespace Pillion\Tests;

use PHPUnit\Framework\TestCase;
use Pillion\AsTool;
use Pillion\CallableTool;
use Pillion\Exception\InvalidInputException;
use Pillion\Tests\Support\Expect;
use Pillion\Tests\Support\FakeSidecar;
use Pillion\Tests\Support\RollDice2;
use Pillion\Tests\Support\Tools;
use Pillion\Tests\Support\Upper;
use Pillion\Tests\Support\WorkerProcess;
use Pillion\ToolDefinition;
use Pillion\ToolRegistry;
use Pillion\Worker;
use Pillion\Worker\Call;

require_once __DIR__ . '/../../library/autoload.php';

/** A worker; the test is the sidecar. */
final class WorkerTest extends TestCase
{
    public function testTheLibraryDefinesItWithTheExtension(): void
    {
        $file = (new \ReflectionClass(Worker::class))->getFileName();
        self::assertStringEndsWith('library/src/Worker.php', (string) $file);
        self::assertSame(getenv('PILLION_CONTRACT') !== 'library', (new \ReflectionClass(ToolRegistry::class))->isInternal());
    }

    public function testItOffersEveryKindOfTool(): void
    {
        $registry = ToolRegistry::withBuiltins();
        $registry->register(new ToolDefinition('of_a_registry', 'One'), fn () => 1);
        $worker = (new Worker('/nowhere'))
            ->add($registry)
            ->add(new Tools())
            ->add(RollDice2::class)
            ->add(Upper::class)
            ->add(new CallableTool(new ToolDefinition('ready_made', 'Two'), fn () => 2))
            ->add(new ToolDefinition('with_handler', 'Three'), fn () => 3)
            ->add(#[AsTool('of_a_closure', 'Four')] fn (int $by) => 4 * $by)
            ->add([new Tools(), 'other']);
        self::assertSame(
            ['of_a_registry', 'forecast', 'say_hello', 'add', 'roll_dice2', 'upper', 'ready_made', 'with_handler', 'of_a_closure', 'other'],
            $worker->getTools(),
        );
    }

    /** @return iterable<string, array{\Closure(Worker): mixed, string}> */
    public static function refused(): iterable
    {
        $definition = new ToolDefinition('upper', 'Once more');
        yield 'twice' => [fn (Worker $worker) => $worker->add(new Upper())->add($definition, fn () => 1), "Tool 'upper' already registered"];
        yield 'no handler' => [fn (Worker $worker) => $worker->add($definition), 'upper: a definition needs a handler'];
        yield 'too much of a handler' => [fn (Worker $worker) => $worker->add(new Upper(), fn () => 1), 'A handler is only allowed with a ToolDefinition'];
        yield 'nothing' => [fn (Worker $worker) => $worker->add('no_such_function'), "There is neither a function nor a class 'no_such_function'"];
        yield 'option' => [fn (Worker $worker) => $worker->add(new Upper(), options: ['tilte' => '']), "the option 'tilte' is unknown"];
        yield 'timeout' => [fn (Worker $worker) => $worker->add(new Upper(), options: ['timeout' => 0]), "the option 'timeout' must be a number"];
        yield 'schema' => [fn (Worker $worker) => $worker->add(new Upper(), options: ['outputSchema' => [1]]), "the option 'outputSchema' must be a map"];
        yield 'title' => [fn (Worker $worker) => $worker->add(new Upper(), options: ['title' => "\xff"]), "the option 'title' must be text"];
        yield 'no tools' => [fn (Worker $worker) => $worker->run(), 'The worker has no tools'];
        yield 'calls' => [fn (Worker $worker) => $worker->add(new Upper())->run(maxCalls: 0), 'maxCalls must be above zero'];
        yield 'seconds' => [fn (Worker $worker) => $worker->add(new Upper())->run(maxSeconds: NAN), 'maxSeconds must be above zero'];
        yield 'name' => [fn () => new Worker('/nowhere', ''), 'A worker needs a name of 1 to 100 characters'];
        yield 'logger' => [fn (Worker $worker) => $worker->setLogger(new \stdClass()), '$logger must have the method log()'];
    }

    /** @dataProvider refused */
    public function testInvalidToolsAreRejected(\Closure $what, string $message): void
    {
        Expect::exception(InvalidInputException::class, fn () => $what(new Worker('/nowhere')), $message);
    }

    public function testItSendsItsDefinitions(): void
    {
        [$sidecar, $worker] = $this->connected($offer);
        self::assertStringStartsWith("POST /api/v1/workers HTTP/1.1\r\nHost: pillion\r\nConnection: Upgrade\r\nUpgrade: pillion-worker\r\n", $sidecar->request);
        self::assertSame('test', $offer['name']);
        $tools = array_column($offer['tools'], null, 'name');
        self::assertSame(['find_order', 'delete_order', 'count_up', 'give', 'rest', 'work', 'twice'], array_keys($tools));
        self::assertEquals([
            'name' => 'find_order',
            'description' => 'Finds an order.',
            'inputSchema' => ['type' => 'object', 'properties' => ['number' => ['type' => 'integer']], 'required' => ['number']],
            'category' => 'orders',
            'requiresConfirmation' => false,
            'cooldownSeconds' => 60,
            'strict' => false,
        ], $tools['find_order']);
        self::assertTrue($tools['delete_order']['requiresConfirmation']);
        self::assertSame(['Give', ['readOnlyHint' => true], 20_000], [$tools['give']['title'], $tools['give']['annotations'], $tools['give']['timeoutMs']]);
    }

    /** @return iterable<string, array{string, array<string, mixed>}> */
    public static function results(): iterable
    {
        $text = fn (string $text) => ['content' => [['type' => 'text', 'text' => $text]]];
        $failed = fn (string $message, string $code) => $text($message) + ['isError' => true, 'errorCode' => $code];
        yield 'text' => ['words', $text('words')];
        yield 'null' => ['null', ['content' => []]];
        yield 'a number' => ['number', $text('1.0')];
        yield 'a list' => ['list', $text('[1,2]')];
        yield 'for people and programs' => ['success', $text('words') + ['structuredContent' => ['for' => 'programs']]];
        yield 'in the form of MCP' => ['blocks', ['content' => [['type' => 'image', 'mimeType' => 'image/png', 'data' => 'AAAA']], 'structuredContent' => []]];
        yield 'not UTF-8' => ['latin1', $failed('The value is not JSON: the value contains text that is not valid UTF-8', 'internal_error')];
        yield 'a failure' => ['failure', $failed('Not today', 'rate_limited') + ['structuredContent' => ['wait' => 3]]];
        yield 'an exception' => ['exception', $failed('Broken caf\xE9', 'internal_error')];
        yield 'too large' => ['large', $failed("Tool 'give' returned 16900075 bytes; the limit is 16777216", 'internal_error')];
        yield 'printed' => ['echo', $text('1')];
        yield 'of a parent, not of its child' => ['fork', $text('the parent')];
    }

    /** @dataProvider results */
    public function testResults(string $what, array $expected): void
    {
        [$sidecar, $worker] = $this->connected();
        self::assertSame($expected, $sidecar->call('give', ['what' => $what]));
        self::assertSame([['type' => 'text', 'text' => '42']], $sidecar->call('twice')['content'], 'it goes on');
        if ($what === 'echo') {
            self::assertStringContainsString('something printed', $worker->output());
        }
    }

    public function testMapsStayMapsAndFloatsStayFloats(): void
    {
        [$sidecar, $worker] = $this->connected();
        $sidecar->sendCall(1, 'find_order', ['number' => 3]);
        $json = '{"number":3,"price":1.0,"lines":[],"notes":{}}';
        self::assertSame(
            '{"jsonrpc":"2.0","id":1,"result":{"content":[{"type":"text","text":' . json_encode($json) . '}],"structuredContent":' . $json . "}}\n",
            $sidecar->receiveLine(),
        );
    }

    public function testErrorsKeepTheirCode(): void
    {
        [$sidecar, $worker] = $this->connected();
        $failed = $sidecar->call('find_order', ['number' => 404]);
        self::assertSame(['not_found', 'No order 404'], [$failed['errorCode'], $failed['content'][0]['text']]);
        self::assertSame(-32602, $sidecar->call('nothing')['error']['code']);
    }

    public function testTheSidecarAppliesApprovalsAndCooldowns(): void
    {
        [$sidecar, $worker] = $this->connected();
        self::assertSame('deleted 7', $sidecar->call('delete_order')['content'][0]['text']);
        foreach ([1, 2] as $number) {
            self::assertArrayNotHasKey('isError', $sidecar->call('find_order', ['number' => $number]));
        }
    }

    public function testAToolReceivesItsCall(): void
    {
        self::assertNull(Call::current());
        [$sidecar, $worker] = $this->connected();
        $sidecar->sendCall(9, 'give', ['what' => 'about'], ['callId' => '01a', 'user' => 'alice', 'channel' => 'web', 'deadlineMs' => 29_990]);
        self::assertSame('["01a","alice","web",30.0]', $sidecar->receive()['result']['content'][0]['text']);
    }

    public function testAClaimedUserIsNotTheVerifiedUser(): void
    {
        [$sidecar, $worker] = $this->connected();
        $sidecar->sendCall(1, 'give', ['what' => 'caller'], ['claimedUser' => 'alice', 'principal' => 'token:ci']);
        self::assertSame('[null,"alice","token:ci"]', $sidecar->receive()['result']['content'][0]['text']);
        $sidecar->sendCall(2, 'give', ['what' => 'caller'], ['user' => 'alice', 'principal' => 'uid:33']);
        self::assertSame('["alice",null,"uid:33"]', $sidecar->receive()['result']['content'][0]['text']);
        $sidecar->sendCall(3, 'give', ['what' => 'caller']);
        self::assertSame('[null,null,null]', $sidecar->receive()['result']['content'][0]['text']);
    }

    public function testProgressIsSent(): void
    {
        [$sidecar, $worker] = $this->connected();
        $sidecar->sendCall(5, 'count_up', ['to' => 2]);
        foreach ([1, 2] as $step) {
            $reported = $sidecar->receive();
            self::assertSame('notifications/progress', $reported['method']);
            self::assertEquals(['progressToken' => 5, 'progress' => $step, 'total' => 2, 'message' => "at $step"], $reported['params']);
        }
        self::assertSame('counted to 2', $sidecar->receive()['result']['content'][0]['text']);
    }

    public function testACancelledCallIsNotified(): void
    {
        [$sidecar, $worker] = $this->connected();
        $sidecar->sendCall(5, 'count_up', ['to' => 100_000]);
        $sidecar->receive();
        $sidecar->send('notifications/cancelled', ['requestId' => 4, 'reason' => 'another']);
        $sidecar->send('ping', [], 'there?');
        while (($received = $sidecar->receive()) !== null && isset($received['method'])) {
            self::assertSame('notifications/progress', $received['method']);
        }
        self::assertSame('there?', $received['id'], 'a ping is answered between two reports');
        $sidecar->send('notifications/cancelled', ['requestId' => 5, 'reason' => 'bored']);
        while (($received = $sidecar->receive()) !== null && isset($received['method'])) {
            self::assertSame('notifications/progress', $received['method']);
        }
        self::assertSame('cancelled', $received['result']['errorCode']);
        self::assertSame('The call was cancelled: bored', $received['result']['content'][0]['text']);
        self::assertSame('42', $sidecar->call('twice')['content'][0]['text']);
    }

    public function testMoreCallsThanOneAtATimeEndTheWorker(): void
    {
        [$sidecar, $worker] = $this->connected();
        $sidecar->sendCall(1, 'count_up', ['to' => 1_000]);
        for ($id = 2; $id < 200; $id++) {
            $sidecar->sendCall($id, 'count_up', ['to' => 1]);
        }
        self::assertSame(1, $worker->ended());
        self::assertStringContainsString('The sidecar sent more than 100 messages during a call', $worker->output());
    }

    public function testExitClosesTheConnection(): void
    {
        [$sidecar, $worker] = $this->connected();
        $sidecar->sendCall(1, 'give', ['what' => 'exit']);
        self::assertNull($sidecar->receive());
        self::assertSame(3, $worker->ended());
    }

    public function testALateResultIsATimeout(): void
    {
        [$sidecar, $worker] = $this->connected();
        $sidecar->sendCall(1, 'rest', ['seconds' => 0.3], ['deadlineMs' => 50]);
        self::assertSame('timeout', $sidecar->receive()['result']['errorCode']);
    }

    public function testASignalEndsTheCallAndThenTheWorker(): void
    {
        [$sidecar, $worker] = $this->connected();
        $sidecar->sendCall(1, 'rest', ['seconds' => 0.5]);
        usleep(200_000);
        $worker->signal(SIGTERM);
        self::assertSame('worker/draining', $sidecar->receive()['method']);
        $ping = $sidecar->receive();
        self::assertSame('ping', $ping['method']);
        self::assertSame('rested', $sidecar->receive()['result']['content'][0]['text']);
        // The call was sent already.
        $sidecar->sendCall(2, 'twice');
        self::assertSame('42', $sidecar->receive()['result']['content'][0]['text']);
        $sidecar->sendLine((string) json_encode(['jsonrpc' => '2.0', 'id' => $ping['id'], 'result' => []]));
        self::assertNull($sidecar->receive());
        self::assertSame(0, $worker->ended());
        self::assertStringEndsWith("stopped: signal\nsignal\n", $worker->output());
    }

    public function testASecondInterruptEndsItAtOnce(): void
    {
        [$sidecar, $worker] = $this->connected();
        $sidecar->sendCall(1, 'rest', ['seconds' => 600]);
        usleep(300_000);
        $worker->signal(SIGINT);
        usleep(300_000);
        $worker->signal(SIGINT);
        self::assertNull($sidecar->receive());
        self::assertSame(-1, $worker->ended());
    }

    /** @return iterable<string, array{array<string, mixed>, int, string}> the limits, the calls until one is reached, and which */
    public static function limits(): iterable
    {
        yield 'calls' => [['maxCalls' => 2], 2, 'calls'];
        yield 'time' => [['maxSeconds' => 0.8], 0, 'time'];
    }

    /** @dataProvider limits */
    public function testItEndsAtALimit(array $limits, int $calls, string $reason): void
    {
        $this->assertEndsAt($limits, $calls, $reason);
    }

    /**
     * For PHP's own allocator, which counts memory.
     *
     * @group leak
     */
    public function testItEndsAtALimitOfMemory(): void
    {
        $this->assertEndsAt(['maxMemory' => 1], 1, 'memory');
    }

    /** @param array<string, mixed> $limits */
    private function assertEndsAt(array $limits, int $calls, string $reason): void
    {
        $sidecar = new FakeSidecar();
        $worker = new WorkerProcess($sidecar->socket, $limits);
        $sidecar->accept();
        for ($left = $calls; $left > 0; $left--) {
            $sidecar->sendCall($left, 'twice');
            if ($left > 1) {
                self::assertSame($left, $sidecar->receive()['id']);
            }
        }
        self::assertSame('worker/draining', $sidecar->receive()['method'], 'before the last answer');
        self::assertSame('ping', $sidecar->receive()['method']);
        if ($calls > 0) {
            self::assertSame(1, $sidecar->receive()['id']);
        }
        $sidecar->disconnect();
        self::assertSame(0, $worker->ended());
        self::assertStringEndsWith("\n$reason\n", $worker->output());
    }

    public function testItWaitsForASidecarAndReconnects(): void
    {
        $sidecar = new FakeSidecar();
        $sidecar->stop();
        $worker = new WorkerProcess($sidecar->socket);
        $worker->printed('reconnecting in 0.2 s');
        $sidecar->listen();
        $sidecar->accept("HTTP/1.1 503 Service Unavailable\r\nContent-Length: 22\r\n\r\n{\"detail\":\"Not today\"}");
        $worker->printed('The sidecar cannot accept another worker now: Not today; reconnecting');
        $sidecar->accept();
        self::assertSame('42', $sidecar->call('twice')['content'][0]['text']);
        $sidecar->disconnect();
        $sidecar->accept();
        self::assertSame('42', $sidecar->call('twice')['content'][0]['text']);
        $sidecar->stop();
        $worker->printed('The sidecar closed the connection');
        $worker->signal(SIGINT);
        self::assertSame(0, $worker->ended(), 'also while it waits');
    }

    public function testNoSignalIsLostWhileAnExceptionIsPending(): void
    {
        $sidecar = new FakeSidecar();
        $worker = new WorkerProcess($sidecar->socket);
        $sidecar->accept("HTTP/1.1 503 Service Unavailable\r\nContent-Length: 28\r\n\r\n{\"detail\":\"Signal yourself\"}");
        self::assertSame(0, $worker->ended());
        self::assertStringContainsString('Interrupted system call', $worker->output());
        self::assertStringEndsWith("\nsignal\n", $worker->output());
    }

    public function testSigtermDoesNotInterruptASystemCallOfATool(): void
    {
        $sidecar = new FakeSidecar();
        $worker = new WorkerProcess($sidecar->socket);
        $sidecar->accept();
        $sidecar->sendCall(1, 'give', ['what' => 'terminated']);
        self::assertSame('worker/draining', $sidecar->receive()['method']);
        self::assertSame('ping', $sidecar->receive()['method']);
        self::assertSame('written', $sidecar->receive()['result']['content'][0]['text']);
        $sidecar->disconnect();
        self::assertSame(0, $worker->ended());
        self::assertStringEndsWith("\nsignal\n", $worker->output());
    }

    public function testACallIsNotifiedWhenItsSidecarEnds(): void
    {
        [$sidecar, $worker] = $this->connected();
        $sidecar->sendCall(1, 'count_up', ['to' => 100_000]);
        $sidecar->receive();
        $sidecar->disconnect();
        $worker->printed('cancelled at');
        $sidecar->accept();
        self::assertSame('42', $sidecar->call('twice')['content'][0]['text']);
    }

    /** @return iterable<string, array{string, string}> */
    public static function refusals(): iterable
    {
        $problem = '{"detail":"No tool may be called so"}';
        $answer = fn (int $status) => "HTTP/1.1 $status No\r\nContent-Type: application/problem+json\r\nContent-Length: " . strlen($problem) . "\r\n\r\n$problem";
        yield 'a bad tool' => [$answer(400), 'Pillion\Exception\InvalidInputException: The sidecar rejected the tools: No tool may be called so'];
        yield 'a name that is taken' => [$answer(409), 'Pillion\Exception\InvalidInputException: The sidecar rejected the tools: No tool may be called so'];
        yield 'not allowed' => [$answer(403), 'Pillion\Exception\AuthorizationException: The sidecar does not accept tools from this process: No tool may be called so'];
        yield 'an old sidecar' => ["HTTP/1.1 404 Not Found\r\nContent-Length: 0\r\n\r\n", 'Pillion\Exception\TransportException: The sidecar does not accept workers: HTTP 404'];
        yield 'no upgrade' => ["HTTP/1.1 200 OK\r\n\r\n", 'Pillion\Exception\TransportException: The sidecar responded with HTTP 200 instead'];
        yield 'another upgrade' => ["HTTP/1.1 101 Switching\r\nUpgrade: websocket\r\n\r\n", 'Pillion\Exception\TransportException: The sidecar switched to a protocol other than'];
        yield 'no HTTP' => ["SSH-2.0-OpenSSH_9.2\r\n\r\n", 'Pillion\Exception\TransportException: The process that listens on the socket is not a sidecar'];
        yield 'an endless head' => [str_repeat('x', 70_000), 'Pillion\Exception\TransportException: The sidecar sent a message of more than 65536 bytes'];
    }

    /** @dataProvider refusals */
    public function testARejectedRegistrationThrows(string $answer, string $message): void
    {
        $sidecar = new FakeSidecar();
        $worker = new WorkerProcess($sidecar->socket);
        $sidecar->accept($answer);
        self::assertSame(1, $worker->ended());
        self::assertStringContainsString($message, $worker->output());
    }

    /** @return iterable<string, array{string, string}> */
    public static function nonsense(): iterable
    {
        yield 'no JSON' => ['{"jsonrpc":', 'invalid JSON-RPC message: Syntax error'];
        yield 'no object' => ['[]', 'invalid JSON-RPC message: the message is not an object'];
        yield 'not UTF-8' => ["{\"method\":\"\xff\"}", 'invalid JSON-RPC message: Malformed UTF-8'];
        yield 'no name' => ['{"id":1,"method":"tools/call","params":{}}', 'a call without an id, a name'];
        yield 'no id' => ['{"method":"tools/call","params":{"name":"twice"}}', 'a call without an id, a name'];
        yield 'arguments' => ['{"id":1,"method":"tools/call","params":{"name":"twice","arguments":[1]}}', 'or an object of arguments'];
        yield 'too long' => [str_repeat('x', 17_000_000), 'a message of more than 16777216 bytes'];
    }

    /** @dataProvider nonsense */
    public function testGarbageFromTheSidecarThrows(string $line, string $message): void
    {
        [$sidecar, $worker] = $this->connected();
        @$sidecar->sendLine($line);
        self::assertSame(1, $worker->ended());
        self::assertStringContainsString('Pillion\Exception\TransportException: The sidecar sent ', $worker->output());
        self::assertStringContainsString($message, $worker->output());
    }

    public function testHostileArgumentsFailOnlyTheirCall(): void
    {
        [$sidecar, $worker] = $this->connected();
        $sidecar->sendLine('{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"twice","arguments":{"\u0000a":1}}}');
        self::assertSame([1, -32602], [($answer = $sidecar->receive())['id'], $answer['error']['code']]);
        $sidecar->sendLine('{"jsonrpc":"2.0","id":2,"method":"tools/call","params":{"name":"twice","arguments":{"x":' . str_repeat('[', 200) . str_repeat(']', 200) . '}}}');
        self::assertSame('invalid_input', $sidecar->receive()['result']['errorCode']);
        $sidecar->sendLine('{"jsonrpc":"2.0","id":3,"method":"resources/list"}');
        self::assertSame(-32601, $sidecar->receive()['error']['code']);
        $sidecar->sendLine('{"jsonrpc":"2.0","method":"notifications/whatever"}');
        self::assertSame('42', $sidecar->call('twice')['content'][0]['text']);
    }

    public function testWrappersSeeACallAndItsException(): void
    {
        $sidecar = new FakeSidecar();
        $code = 'require_once ' . var_export(__DIR__ . '/../../library/autoload.php', true) . ';'
            . '$worker = (new Pillion\Worker(' . var_export($sidecar->socket, true) . ", 'x'))"
            . <<<'PHP'
            ->add(new Pillion\ToolDefinition('fail', 'Fails'), fn () => throw new DomainException('inside'))
            ->around(function (Pillion\Worker\Call $call, Closure $run) use (&$worker): Pillion\ToolResult {
                $result = $run();
                echo get_class($call->thrown), " $call->tool $result->errorCode ";
                $worker->stop();
                throw new LogicException('outside');
            });
            echo $worker->run()->value;
            PHP;
        $options = getenv('PILLION_CONTRACT') === 'library' ? [] : ['-d', 'extension=' . getenv('PILLION_EXTENSION')];
        $process = proc_open([PHP_BINARY, ...$options, '-r', $code], [1 => ['pipe', 'w']], $pipes);
        $sidecar->accept();
        $sidecar->sendCall(1, 'fail');
        self::assertSame('worker/draining', $sidecar->receive()['method']);
        $sidecar->receive();
        self::assertSame('outside', $sidecar->receive()['result']['content'][0]['text']);
        $sidecar->disconnect();
        self::assertSame('DomainException fail internal_error requested', stream_get_contents($pipes[1]));
        self::assertSame(0, proc_close($process));
    }

    /**
     * @param ?array<string, mixed> $offer
     *
     * @return array{FakeSidecar, WorkerProcess}
     */
    private function connected(?array &$offer = null): array
    {
        $sidecar = new FakeSidecar();
        $worker = new WorkerProcess($sidecar->socket);
        $offer = $sidecar->accept();
        return [$sidecar, $worker];
    }
}
