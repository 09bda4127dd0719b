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
use Pillion\Tests\Support\OddPeer;
use Pillion\Tests\Support\Process;
use Pillion\Tests\Support\SidecarProcess;
use Pillion\ToolCall;
use PHPUnit\Framework\TestCase;

/** Against the real sidecar. */
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
        yield 'a schema that is a number' => ['getSchemas', [], "list 'schemas' has an entry that is no object"];
        yield 'results that are a map' => ['executeAll', [[['id' => '1', 'name' => 'x']]], 'has no result for each call'];
    }

    /** @dataProvider wrongTypes */
    public function testAnAnswerOfOtherTypesIsNone(string $method, array $arguments, string $message): void
    {
        $peer = new OddPeer('wrong types');
        try {
            (new Sidecar($peer->socket, 5))->$method(...$arguments);
            self::fail('It was taken');
        } catch (TransportException $e) {
            self::assertStringContainsString($message, $e->getMessage());
        } finally {
            $peer->stop();
        }
    }

    public function testI1ListToolsAndSchemas(): void
    {
        self::assertTrue($this->sidecar->isAvailable());
        $names = array_column($this->sidecar->listTools(), 'name');
        self::assertSame(['calculator', 'get_time', 'roll_dice', 'get_weather', 'search_memory', 'remember', 'forget'], $names);
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

    public function testD5D8D11ToolsOfTheMemoryAndOfThePackAreThere(): void
    {
        $process = new SidecarProcess(environment: ['PILLION__TABLETOP__ENABLED' => 'true']);
        try {
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
        } finally {
            $process->stop();
        }
    }

    public function testI2AFailedToolThrowsWhatFitsItsCode(): void
    {
        try {
            $this->sidecar->callTool('calculator', ['expression' => '1/0']);
            self::fail('It did not fail');
        } catch (PillionException $e) {
            self::assertSame('Calculation error: division by zero', $e->getMessage());
            self::assertSame('invalid_input', $e->errorCode);
            self::assertInstanceOf(InvalidInputException::class, $e);
        }
        $this->expectException(NotFoundException::class);
        $this->expectExceptionMessage("Tool 'nope' not found");
        $this->sidecar->callTool('nope');
    }

    public function testA7ExecuteGivesAResultLikeTheExecutors(): void
    {
        $result = $this->sidecar->execute(new ToolCall('c1', 'calculator', ['expression' => '10/3']), ['user' => 'alice']);
        self::assertSame(['c1', 'calculator', true], [$result->toolCallId, $result->toolName, $result->success]);
        self::assertSame('3.33333', $result->result);
        self::assertEqualsWithDelta(10 / 3, $result->data['result'], 1e-9);
        self::assertArrayHasKey('execution_time', $result->metadata);
    }

    public function testC1OneFailureNeverAffectsSiblings(): void
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

    public function testG3ArgumentsThatNeedApprovalStayAsTheyAre(): void
    {
        $peer = new OddPeer('asks');
        try {
            [$asked, $done] = (new Sidecar($peer->socket, 5))->executeAll([['id' => '1', 'name' => 't'], ['id' => '2', 'name' => 't']]);
        } finally {
            $peer->stop();
        }
        self::assertSame('{"approval_id":"a1","arguments":{"map":{},"list":[],"f":1.5}}', json_encode($asked->metadata));
        self::assertSame(['map' => []], $done->result);
    }

    public function testE11EmptyArgumentsAreAnObject(): void
    {
        self::assertArrayHasKey('formatted', $this->sidecar->callTool('get_time'));
        self::assertArrayHasKey('formatted', $this->sidecar->callTool('get_time', []));
    }

    public function testNobodyListens(): void
    {
        $sidecar = new Sidecar('/nonexistent/pillion.sock');
        self::assertFalse($sidecar->isAvailable());
        $this->expectException(UnavailableException::class);
        $this->expectExceptionMessage('/nonexistent/pillion.sock');
        $sidecar->listTools();
    }

    /** @group timing */
    public function testAPeerThatSaysNothingTimesOut(): void
    {
        $path = sys_get_temp_dir() . '/pillion-mute-' . getmypid();
        $server = stream_socket_server("unix://$path");
        try {
            $started = microtime(true);
            (new Sidecar($path, timeout: 0.2))->listTools();
            self::fail('It did not time out');
        } catch (TimeoutException $e) {
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
