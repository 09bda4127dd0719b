<?php

declare(strict_types=1);

namespace Pillion\Tests;

use Pillion\Exception\InvalidInputException;
use Pillion\Exception\NotFoundException;
use Pillion\Exception\PillionException;
use Pillion\Exception\TimeoutException;
use Pillion\Exception\TransportException;
use Pillion\Exception\UnavailableException;
use Pillion\Sidecar;
use Pillion\Tests\Support\Expect;
use Pillion\Tests\Support\OddPeer;
use Pillion\Tests\Support\Process;
use Pillion\Tests\Support\SidecarProcess;
use Pillion\ToolCall;
use PHPUnit\Framework\TestCase;

/** The Sidecar class with the real sidecar. */
final class SidecarTest extends TestCase
{
    private static SidecarProcess $process;
    private Sidecar $sidecar;

    public static function setUpBeforeClass(): void
    {
        self::$process = new SidecarProcess();
    }

    public static function tearDownAfterClass(): void
    {
        self::$process->stop();
    }

    protected function setUp(): void
    {
        $this->sidecar = new Sidecar(self::$process->socket);
    }

    /** @return iterable<string, array{string, list<mixed>, string}> */
    public static function wrongTypes(): iterable
    {
        yield 'tools that are text' => ['listTools', [], "has no list 'tools'"];
        yield 'a schema that is a number' => ['getSchemas', [], "list 'schemas' has an entry that is not an object"];
        yield 'results that are a map' => ['executeAll', [[['id' => '1', 'name' => 'x']]], 'with one result for each call'];
    }

    /** @dataProvider wrongTypes */
    public function testAResponseWithWrongTypesIsRejected(string $method, array $arguments, string $message): void
    {
        $peer = new OddPeer('wrong types');
        Expect::exception(TransportException::class, fn () => (new Sidecar($peer->socket, 5))->$method(...$arguments), $message);
    }

    public function testI1ListToolsAndSchemas(): void
    {
        self::assertTrue($this->sidecar->isAvailable());
        $names = array_column($this->sidecar->listTools(), 'name');
        self::assertSame(['calculator', 'get_time', 'roll_dice', 'search_memory', 'remember', 'forget'], $names);
        self::assertSame(['roll_dice'], array_column($this->sidecar->listTools('fun'), 'name'));
        $schemas = $this->sidecar->getSchemas(category: 'math');
        self::assertSame($names, array_column($this->sidecar->listTools(context: ['user' => 'alice']), 'name'));
        self::assertSame($schemas, $this->sidecar->getSchemas('math', ['user' => 'alice']));
        self::assertSame('calculator', $schemas[0]['function']['name']);
    }

    public function testI1CallToolReturnsTheData(): void
    {
        self::assertSame(4, $this->sidecar->callTool('calculator', ['expression' => '2 + 2'])['result']);
    }

    public function testD5D8D11ToolsOfTheMemoryAndOfThePackAreListed(): void
    {
        $process = new SidecarProcess(environment: ['PILLION__TABLETOP__ENABLED' => 'true']);
        $sidecar = new Sidecar($process->socket);
        $context = ['user' => 'alice', 'channel' => 'table'];
        foreach (['Alice likes dice' => 3, 'alice owns a cat' => 5] as $content => $importance) {
            $sidecar->callTool('remember', ['content' => $content, 'importance' => $importance], $context);
        }
        $found = fn (string $query, array $context): array => array_column($sidecar->callTool('search_memory', ['query' => $query], $context)['memories'], 'content');
        self::assertSame(['alice owns a cat', 'Alice likes dice'], $found('alice', $context));
        self::assertSame(['Alice likes dice'], $found('alice dice', $context));
        self::assertSame([], $found('alice', ['channel' => 'elsewhere'] + $context));

        $check = ['ability' => 'DEX', 'score' => 16, 'proficient' => true, 'dc' => 15];
        self::assertSame(
            ['total' => 17, 'd20' => [12], 'pick' => 12, 'mod' => 5, 'success' => true],
            $sidecar->callTool('compute_check', ['check' => $check, 'd20_rolls' => [12]]),
        );
        $said = $sidecar->callTool('append_transcript', ['scene_id' => 'inn', 'author' => 'Ann', 'message' => 'Hello']);
        self::assertTrue($said['ok']);
        $result = $sidecar->execute(new ToolCall('c1', 'compute_check', ['check' => ['ability' => 'LCK', 'score' => 10]]));
        self::assertSame(['invalid_input', 'c1'], [$result->errorCode, $result->toolCallId]);
    }

    public function testI2AFailedToolThrowsTheExceptionOfItsCode(): void
    {
        $e = Expect::exception(PillionException::class, fn () => $this->sidecar->callTool('calculator', ['expression' => '1/0']));
        self::assertSame('Calculation error: division by zero', $e->getMessage());
        self::assertSame('invalid_input', $e->errorCode);
        self::assertInstanceOf(InvalidInputException::class, $e);
        Expect::exception(NotFoundException::class, fn () => $this->sidecar->callTool('nope'), "Tool 'nope' not found");
    }

    public function testA7ExecuteReturnsAResultLikeTheExecutor(): void
    {
        $result = $this->sidecar->execute(new ToolCall('c1', 'calculator', ['expression' => '10/3']), ['user' => 'alice']);
        self::assertSame(['c1', 'calculator', true], [$result->toolCallId, $result->toolName, $result->success]);
        self::assertSame('3.33333', $result->result);
        self::assertEqualsWithDelta(10 / 3, $result->data['result'], 1e-9);
        self::assertArrayHasKey('execution_time', $result->metadata);
    }

    public function testC1OneFailureNeverAffectsOtherCalls(): void
    {
        $calls = [
            new ToolCall('1', 'calculator', ['expression' => '1+1']),
            ['id' => '2', 'name' => 'nope'],
            new ToolCall('3', 'calculator', '{"bad'),
            new ToolCall('4', 'calculator', '{"expression": "6*7"}'),
        ];
        foreach (['executeAll', 'executeParallel'] as $method) {
            $results = $this->sidecar->$method($calls);
            self::assertSame(['1', '2', '3', '4'], array_column($results, 'toolCallId'));
            self::assertSame([true, false, false, true], array_column($results, 'success'));
            self::assertSame([null, 'not_found', 'invalid_input', null], array_column($results, 'errorCode'));
            self::assertSame('42', $results[3]->result);
        }
        self::assertSame([], $this->sidecar->executeAll([]));
    }

    private static function nested(int $levels): array
    {
        $arguments = ['expression' => '1 + 1'];
        $deep = [];
        for ($level = 2; $level < $levels; $level++) {
            $deep = ['a' => $deep];
        }
        return $arguments + ['deep' => $deep];
    }

    public function testACallThatCannotBeSentFailsAlone(): void
    {
        $calls = [
            new ToolCall('good', 'calculator', ['expression' => '1 + 1']),
            new ToolCall('large', 'calculator', ['expression' => str_repeat('1', 2 << 20)]),
            new ToolCall('deep', 'calculator', self::nested(128)),
            new ToolCall('deeper', 'calculator', self::nested(129)),
            ['id' => 'no JSON', 'name' => 'calculator', 'arguments' => ['expression' => NAN]],
            new ToolCall('as deep as can be', 'calculator', self::nested(127)),
            new ToolCall('last', 'calculator', ['expression' => '6 * 7']),
        ];
        foreach (['executeAll', 'executeParallel'] as $method) {
            $results = $this->sidecar->$method($calls);
            self::assertSame(['good', 'large', 'deep', 'deeper', 'no JSON', 'as deep as can be', 'last'], array_column($results, 'toolCallId'));
            self::assertSame(
                [null, 'invalid_input', 'invalid_input', 'invalid_input', 'invalid_input', null, null],
                array_column($results, 'errorCode'),
                json_encode(array_column($results, 'error')),
            );
            self::assertSame(['2', '2', '42'], [$results[0]->result, $results[5]->result, $results[6]->result]);
            self::assertSame('The request body is longer than 1048576 bytes', $results[1]->error);
            self::assertSame('The argument $arguments is not JSON: the value nests deeper than 128 levels, or contains itself', $results[3]->error);
        }
        foreach ($calls as $place => $call) {
            $result = $this->sidecar->execute($call);
            self::assertSame([$results[$place]->success, $results[$place]->errorCode, $results[$place]->error], [$result->success, $result->errorCode, $result->error]);
        }
        self::assertFalse($this->sidecar->executeAll([$calls[3]])[0]->success);
    }

    public function testMoreCallsThanTheSidecarTakesAtOnce(): void
    {
        $calls = array_map(fn (int $number) => new ToolCall("c$number", 'calculator', ['expression' => "$number + 1"]), range(1, 230));
        $expected = array_map(fn (int $number) => (string) ($number + 1), range(1, 230));
        $small = new SidecarProcess(environment: ['PILLION__HTTP__MAX_BATCH_CALLS' => '40', 'PILLION__HTTP__MAX_BODY_BYTES' => '2000']);
        foreach ([$this->sidecar, new Sidecar($small->socket)] as $sidecar) {
            foreach (['executeAll', 'executeParallel'] as $method) {
                $results = $sidecar->$method($calls);
                self::assertSame(array_column($calls, 'id'), array_column($results, 'toolCallId'));
                self::assertSame($expected, array_column($results, 'result'));
            }
        }
    }

    public function testPartsOfABatchHaveTheirOwnIdempotencyKeys(): void
    {
        $calls = array_map(fn (int $number) => new ToolCall("c$number", 'roll_dice', ['notation' => '10d100']), range(1, 130));
        foreach (['parts', '"quoted parts"'] as $key) {
            $context = ['idempotency_key' => str_replace(' ', '-', $key)];
            $first = array_column($this->sidecar->executeAll($calls, $context), 'result');
            self::assertSame($first, array_column($this->sidecar->executeAll($calls, $context), 'result'));
            self::assertGreaterThan(100, count(array_unique($first)));
        }
    }

    public function testARejectedRequestThrows(): void
    {
        $calls = array_map(fn (int $number) => new ToolCall("c$number", 'get_time'), range(1, 8));
        foreach (['executeAll', 'executeParallel'] as $method) {
            $e = Expect::exception(InvalidInputException::class, fn () => $this->sidecar->$method($calls, ['user' => str_repeat('u', 300)]));
            self::assertSame('The header x-pillion-user must be UTF-8 of at most 256 bytes', $e->getMessage());
        }
    }

    public function testATimeoutNamesTheTool(): void
    {
        $path = sys_get_temp_dir() . '/pillion-mute3-' . getmypid();
        $server = stream_socket_server("unix://$path");
        $sidecar = new Sidecar($path, timeout: 0.2);
        try {
            foreach ([
                "Tool 'slow' returned no result within 0.2s" => [
                    fn () => $sidecar->callTool('slow'),
                    fn () => $sidecar->execute(new ToolCall('1', 'slow')),
                    fn () => $sidecar->executeAll([['id' => '1', 'name' => 'slow'], ['id' => '2', 'name' => 'slow']]),
                ],
                "The tools 'a', 'b', 'c' and 2 more returned no result within 0.2s" => [
                    fn () => $sidecar->executeParallel(array_map(fn (string $name) => ['id' => $name, 'name' => $name], ['a', 'b', 'c', 'a', 'd', 'e'])),
                ],
                'The sidecar did not respond within 0.2s' => [fn () => $sidecar->listTools()],
            ] as $message => $ways) {
                foreach ($ways as $way) {
                    $e = Expect::exception(TimeoutException::class, $way(...));
                    self::assertSame([$message, 'timeout'], [$e->getMessage(), $e->errorCode]);
                }
            }
        } finally {
            fclose($server);
            unlink($path);
        }
    }

    public function testAfterARequestWithoutAnAnswerTheRemainingCallsAreNotSent(): void
    {
        $calls = array_map(fn (int $number) => new ToolCall("c$number", 't'), range(1, 450));
        foreach (['executeAll', 'executeParallel'] as $method) {
            $peer = new OddPeer('second batch breaks off');
            try {
                $results = (new Sidecar($peer->socket, 5))->$method($calls);
            } finally {
                $requests = $peer->stop();
            }
            self::assertSame(array_column($calls, 'id'), array_column($results, 'toolCallId'));
            self::assertSame([true, true, false], [$results[0]->success, $results[99]->success, $results[100]->success]);
            self::assertStringStartsWith('The sidecar closed the connection before it sent a response', $results[199]->error);
            foreach (array_slice($results, 200) as $result) {
                self::assertSame(["The call was not sent: {$results[199]->error}", 'unavailable'], [$result->error, $result->errorCode]);
            }
            self::assertSame(2, $requests);
        }
    }

    public function testAnInvalidAnswerFailsTheCallsOfItsRequestAlone(): void
    {
        $calls = array_map(fn (int $number) => new ToolCall("c$number", 't'), range(1, 250));
        $peer = new OddPeer('second batch is no list');
        $results = (new Sidecar($peer->socket, 5))->executeAll($calls);
        self::assertSame(array_column($calls, 'id'), array_column($results, 'toolCallId'));
        $codes = [...array_fill(0, 100, null), ...array_fill(0, 100, 'unavailable'), ...array_fill(0, 50, null)];
        self::assertSame($codes, array_column($results, 'errorCode'));
        self::assertStringStartsWith("The sidecar's response has no ", $results[150]->error);
    }

    public function testG3ArgumentsThatNeedApprovalAreUnchanged(): void
    {
        $peer = new OddPeer('asks');
        [$asked, $done] = (new Sidecar($peer->socket, 5))->executeAll([['id' => '1', 'name' => 't'], ['id' => '2', 'name' => 't']]);
        self::assertSame('{"approval_id":"a1","arguments":{"map":{},"list":[],"f":1.5}}', json_encode($asked->metadata));
        self::assertSame(['map' => []], $done->result);
    }

    public function testE11EmptyArgumentsAreAnObject(): void
    {
        self::assertArrayHasKey('formatted', $this->sidecar->callTool('get_time'));
        self::assertArrayHasKey('formatted', $this->sidecar->callTool('get_time', []));
    }

    public function testE9AToolOfAServerThatIsDownIsUnavailable(): void
    {
        $process = new SidecarProcess([['label' => 'nowhere', 'url' => 'http://127.0.0.1:9/mcp', 'transport' => 'streamable_http']]);
        $sidecar = new Sidecar($process->socket);
        $results = $sidecar->executeParallel([['id' => '1', 'name' => 'nowhere_echo'], ['id' => '2', 'name' => 'nope']]);
        self::assertSame(['unavailable', 'not_found'], array_column($results, 'errorCode'));
        Expect::exception(UnavailableException::class, fn () => $sidecar->callTool('nowhere_echo'), "MCP server 'nowhere' is unavailable: ");
    }

    public function testARefusedConnectionIsAnError(): void
    {
        $sidecar = new Sidecar('/nonexistent/pillion.sock');
        self::assertFalse($sidecar->isAvailable());
        Expect::exception(UnavailableException::class, fn () => $sidecar->listTools(), '/nonexistent/pillion.sock');
    }

    /** @group timing */
    public function testASilentServerTimesOut(): void
    {
        $path = sys_get_temp_dir() . '/pillion-mute-' . getmypid();
        $server = stream_socket_server("unix://$path");
        try {
            $started = microtime(true);
            $e = Expect::exception(TimeoutException::class, fn () => (new Sidecar($path, timeout: 0.2))->listTools());
            self::assertSame('timeout', $e->errorCode);
            self::assertLessThan(3, microtime(true) - $started);
        } finally {
            fclose($server);
            unlink($path);
        }
    }

    public function testTheSocketComesFromTheSettings(): void
    {
        self::assertSame(self::$process->socket, $this->sidecar->getSocketPath());
        $code = 'echo (new Pillion\Sidecar())->getSocketPath();';
        if (extension_loaded('pillion')) {
            self::assertSame('/a.sock', Process::php($code, ['-d', 'pillion.socket=/a.sock'])['output']);
        }
        $before = getenv('PILLION_SOCKET');
        putenv('PILLION_SOCKET=/b.sock');
        try {
            self::assertSame('/b.sock', Process::php($code)['output']);
        } finally {
            putenv($before === false ? 'PILLION_SOCKET' : "PILLION_SOCKET=$before");
        }
    }

    public function testAnApplicationSetsTheSocketOfEveryClientWithoutOne(): void
    {
        $fallback = (new Sidecar())->getSocketPath();
        $socket = '/first.sock';
        try {
            Sidecar::resolveSocketUsing(function () use (&$socket) {
                return $socket;
            });
            self::assertSame('/first.sock', (new Sidecar())->getSocketPath());
            $subclass = new class () extends Sidecar {};
            self::assertSame('/first.sock', $subclass->getSocketPath());
            $socket = '/second.sock';
            self::assertSame('/second.sock', (new Sidecar(timeout: 1))->getSocketPath());
            self::assertSame('/first.sock', $subclass->getSocketPath());
            self::assertSame('/explicit.sock', (new Sidecar('/explicit.sock'))->getSocketPath());
            foreach ([null, ''] as $socket) {
                self::assertSame($fallback, (new Sidecar())->getSocketPath());
            }
            $socket = 7;
            $e = Expect::exception(InvalidInputException::class, fn () => new Sidecar());
            self::assertSame("The resolver of the sidecar's socket must return a string or null, not int", $e->getMessage());
            Sidecar::resolveSocketUsing(fn () => throw new \DomainException('not configured'));
            Expect::exception(\DomainException::class, fn () => new Sidecar());
        } finally {
            Sidecar::resolveSocketUsing(null);
            self::assertSame($fallback, (new Sidecar())->getSocketPath());
        }
    }

    public function testOnlyAClosureResolvesTheSocket(): void
    {
        Expect::exception(\TypeError::class, fn () => Sidecar::resolveSocketUsing('phpversion'), 'must be of type ?Closure, string given');
    }

    public function testASignalHandlerEndsAWait(): void
    {
        $path = sys_get_temp_dir() . '/pillion-mute2-' . getmypid();
        $server = stream_socket_server("unix://$path");
        $code = <<<'PHP'
            pcntl_async_signals(true);
            pcntl_signal(SIGALRM, fn () => throw new DomainException('enough'));
            $started = microtime(true);
            try {
                pcntl_alarm(1);
                (new Pillion\Sidecar('SOCKET', 30))->listTools();
            } catch (DomainException $e) {
                echo $e->getMessage(), microtime(true) - $started < 5 ? ' in time' : ' late';
            }
            PHP;
        try {
            $ran = Process::php(str_replace('SOCKET', $path, $code));
            self::assertSame('enough in time', $ran['output']);
        } finally {
            fclose($server);
            unlink($path);
        }
    }
}
