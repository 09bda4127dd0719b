<?php

declare(strict_types=1);

namespace Pillion\Tests;

use Pillion\Event\ToolCallFinished;
use Pillion\Event\ToolCallStarted;
use Pillion\Exception\InvalidInputException;
use Pillion\MCPSSEClient;
use Pillion\Tests\Support\Dispatcher;
use Pillion\Tests\Support\Expect;
use Pillion\Tests\Support\FakeServer;
use Pillion\Tests\Support\Logger;
use Pillion\Tests\Support\Upper;
use Pillion\ToolCall;
use Pillion\ToolDefinition;
use Pillion\ToolExecutor;
use Pillion\ToolRegistry;
use Pillion\ToolResult;
use PHPUnit\Framework\TestCase;

final class ToolExecutorTest extends TestCase
{
    private ToolRegistry $registry;

    protected function setUp(): void
    {
        $this->registry = ToolRegistry::withBuiltins();
        $this->registry->register(new Upper());
    }

    private function registerServer(): void
    {
        $before = ini_set('pillion.log_level', 'off');
        $this->registry->registerMcpServer(new MCPSSEClient(FakeServer::url()));
        ini_set('pillion.log_level', (string) $before);
    }

    private function add(string $name, callable $handler, array $parameters = [], float $cooldown = 0): void
    {
        $this->registry->register(
            new ToolDefinition($name, 'A test', $parameters, cooldownSeconds: $cooldown),
            $handler,
        );
    }

    public function testAnUnknownOptionIsNamedWithTheValidOptions(): void
    {
        $e = Expect::exception(InvalidInputException::class, fn () => new ToolExecutor($this->registry, ['timeot' => 5]));
        preg_match("/^Invalid executor option 'timeot': unknown field.*, expected one of (.*)$/", $e->getMessage(), $found);
        $options = ['timeout', 'tool_timeouts', 'max_concurrent', 'max_concurrent_local', 'max_concurrent_total', 'server_concurrency', 'tool_concurrency', 'queue_timeout', 'max_output_bytes', 'enable_caching', 'rate_limits', 'approvals', 'approve', 'before'];
        self::assertSame($options, explode(', ', str_replace('`', '', $found[1])));
    }

    public function testN1CachingCanBeDisabled(): void
    {
        new ToolExecutor($this->registry, ['enable_caching' => true]);
        $this->expectException(InvalidInputException::class);
        $this->expectExceptionMessage("Invalid executor option 'enable_caching': ");
        new ToolExecutor($this->registry, ['enable_caching' => 'no']);
    }

    /** @group extension */
    public function testN1DisablingTheCacheStopsCaching(): void
    {
        ini_set('pillion.log_level', 'off');
        $this->registry->registerMcpServer(['server_url' => str_replace('/sse', '/everything', FakeServer::url())], 'x_');
        ini_restore('pillion.log_level');
        foreach ([[[], 1], [['enable_caching' => true], 1], [['enable_caching' => false], 2]] as [$options, $asked]) {
            $executor = new ToolExecutor($this->registry, $options);
            $ask = fn (): int => $executor->execute(new ToolCall('c1', 'x_kept'))->result['nth'];
            self::assertCount($asked, array_unique([$ask(), $ask()]));
        }
    }

    private function call(string $name, array|string $arguments = [], array $options = [], array $context = []): ToolResult
    {
        return (new ToolExecutor($this->registry, $options))->execute(new ToolCall('c1', $name, $arguments), $context);
    }

    public function testC1OneFailureNeverAffectsOtherCalls(): void
    {
        $calls = array_map(
            fn (string $expression) => ['id' => $expression, 'name' => 'calculator', 'arguments' => ['expression' => $expression]],
            ['1+1', '1/0', '2+2'],
        );
        $executor = new ToolExecutor($this->registry);
        foreach (['executeAll', 'executeParallel'] as $method) {
            $results = $executor->$method($calls);
            self::assertSame(['1+1', '1/0', '2+2'], array_column($results, 'toolCallId'));
            self::assertSame([true, false, true], array_column($results, 'success'));
        }
    }

    public function testC1OrderIsKeptAcrossToolsOfAllKinds(): void
    {
        $this->add('nap', function (array $arguments) {
            usleep($arguments['ms'] * 1000);
            return $arguments['ms'];
        }, [['name' => 'ms', 'type' => 'integer']]);
        $results = (new ToolExecutor($this->registry))->executeParallel([
            new ToolCall('1', 'nap', ['ms' => 30]),
            new ToolCall('2', 'calculator', ['expression' => '6*7']),
            new ToolCall('3', 'upper', ['text' => 'abc']),
            new ToolCall('4', 'nope'),
            new ToolCall('5', 'nap', ['ms' => 1]),
        ]);
        self::assertSame(['1', '2', '3', '4', '5'], array_column($results, 'toolCallId'));
        self::assertSame([30, '42', 'ABC', null, 1], array_column($results, 'result'));
    }

    public function testC1ContextReachesTheLimits(): void
    {
        $this->add('once', fn () => 'ok', cooldown: 60);
        $executor = new ToolExecutor($this->registry);
        $call = new ToolCall('1', 'once');
        self::assertTrue($executor->execute($call, ['user' => 'alice'])->success);
        self::assertTrue($executor->execute($call, ['user' => 'bob'])->success);
        $refused = $executor->execute($call, ['user' => 'alice']);
        self::assertSame('rate_limited', $refused->errorCode);
        self::assertGreaterThan(0, $refused->metadata['retry_after']);
    }

    public function testC2APHPToolThatTakesTooLongHasATimeout(): void
    {
        $this->add('slow', function () {
            usleep(400_000);
            return 'too late';
        });
        $result = $this->call('slow', options: ['timeout' => 0.1]);
        self::assertSame("Tool 'slow' timed out after 0.1s", $result->error);
        self::assertSame('timeout', $result->errorCode);
    }

    public function testC2TheTimeLimitOfAPHPToolStartsWhenItRuns(): void
    {
        $this->add('nap', function () {
            usleep(400_000);
            return 'done';
        });
        $executor = new ToolExecutor($this->registry, ['timeout' => 1.5]);
        $calls = array_map(fn (int $i) => new ToolCall("$i", 'nap'), range(1, 4));
        foreach ($executor->executeParallel($calls) as $result) {
            self::assertTrue($result->success, (string) $result->error);
        }
    }

    public function testC3ArgumentsAreCheckedAndDefaultsFilledIn(): void
    {
        $this->add('greet', fn (array $arguments) => $arguments, [
            ['name' => 'name', 'type' => 'string'],
            ['name' => 'format', 'type' => 'string', 'required' => false, 'default' => 'full', 'enum' => ['full', 'date']],
        ]);
        self::assertSame(['name' => 'Ada', 'format' => 'full'], $this->call('greet', ['name' => 'Ada'])->result);
        self::assertSame('Missing required parameter: name', $this->call('greet')->error);
        $bad = $this->call('greet', ['name' => 'Ada', 'format' => 'odd']);
        self::assertSame("Invalid value for format: must be one of ['full', 'date']", $bad->error);
        self::assertSame('invalid_input', $this->call('greet', ['name' => 5])->errorCode);
    }

    public function testC4AThrowingCallableFailsOnlyItsCall(): void
    {
        $this->add('throws', fn () => throw new \DomainException('no luck'));
        $this->add('errs', fn () => intdiv(1, 0));
        $this->add('wrong', fn (int $arguments) => 1);
        $result = $this->call('throws');
        self::assertSame('no luck', $result->error);
        self::assertSame('internal_error', $result->errorCode);
        self::assertGreaterThan(0, $result->metadata['execution_time']);
        self::assertSame('Division by zero', $this->call('errs')->error);
        self::assertStringContainsString('must be of type int', $this->call('wrong')->error);
    }

    public function testC5APillionExceptionKeepsItsCode(): void
    {
        $this->add('refuses', fn () => throw new InvalidInputException('no'));
        $this->add('calls', fn () => (new MCPSSEClient('http://127.0.0.1:1/'))->callTool('x'));
        self::assertSame('invalid_input', $this->call('refuses')->errorCode);
        self::assertSame('unavailable', $this->call('calls')->errorCode);
    }

    public function testC7RateLimits(): void
    {
        $executor = new ToolExecutor($this->registry, ['rate_limits' => ['tools' => ['upper' => ['per_minute' => 2]]]]);
        $call = new ToolCall('1', 'upper', ['text' => 'x']);
        $codes = array_map(fn () => $executor->execute($call)->errorCode, range(1, 3));
        self::assertSame([null, null, 'rate_limited'], $codes);
    }

    public function testA6ArgumentsAsAString(): void
    {
        self::assertSame('HI', $this->call('upper', '{"text": "hi"}')->result);
        $bad = $this->call('upper', '{"bad');
        self::assertFalse($bad->success);
        self::assertSame('invalid_input', $bad->errorCode);
    }

    public function testB5TheExecutorsErrorForAnUnknownToolNamesIt(): void
    {
        $result = $this->call('zip');
        self::assertSame('Unknown tool: zip', $result->error);
        self::assertSame('not_found', $result->errorCode);
    }

    /** @dataProvider answers */
    public function testWhatACallableMayReturn(mixed $answer, mixed $result): void
    {
        $this->add('answers', fn () => $answer);
        self::assertSame($result, $this->call('answers')->result);
    }

    public static function answers(): iterable
    {
        yield 'null' => [null, null];
        yield 'a float' => [1.0, 1.0];
        yield 'a map' => [['a' => [1, 2], 'b' => null], ['a' => [1, 2], 'b' => null]];
        yield 'an object' => [(object) ['x' => 1], ['x' => 1]];
        yield 'a result' => [new ToolResult('', '', 'inner'), 'inner'];
    }

    public function testAFailedResultOfACallableIsAFailedCall(): void
    {
        $this->add('fails', fn (array $a, string $id) => new ToolResult($id, 'fails', ['error' => 'x'], false, 'said no', 'denied'));
        $result = $this->call('fails');
        self::assertFalse($result->success);
        self::assertSame(['said no', 'denied', ['error' => 'x']], [$result->error, $result->errorCode, $result->result]);
    }

    public function testAReturnValueThatIsNotJsonFailsTheCall(): void
    {
        $this->add('resource', fn () => STDIN);
        $result = $this->call('resource');
        self::assertSame(['The value is not JSON: the value contains a resource', 'internal_error'], [$result->error, $result->errorCode]);
        foreach (['result' => ["\xff"], 'data' => ['', NAN], 'metadata' => ['', null, ['x' => INF]]] as $what => $parts) {
            $this->add($what, fn (array $a, string $id) => new ToolResult($id, $what, $parts[0], data: $parts[1] ?? null, metadata: $parts[2] ?? []));
            self::assertSame('internal_error', $this->call($what)->errorCode, $what);
        }
    }

    public function testAnExceptionOfJsonSerializeKeepsItsCode(): void
    {
        $this->add('refuses', fn () => new class () implements \JsonSerializable {
            public function jsonSerialize(): mixed
            {
                throw new \Pillion\Exception\DeniedException('not yours');
            }
        });
        $result = $this->call('refuses');
        self::assertSame(['not yours', 'denied'], [$result->error, $result->errorCode]);
    }

    public function testAToolMayUseTheExecutorItself(): void
    {
        $executor = new ToolExecutor($this->registry);
        $this->add('outer', fn () => $executor->execute(new ToolCall('in', 'upper', ['text' => 'nested']))->result);
        self::assertSame('NESTED', $this->call('outer')->result);
    }

    public function testNestingHasALimit(): void
    {
        $runs = 0;
        $executor = new ToolExecutor($this->registry);
        $this->add('loop', function (array $arguments, string $id) use ($executor, &$runs) {
            $runs++;
            return $executor->execute(new ToolCall("$id'", 'loop'));
        });
        $this->add('parallel', function (array $arguments, string $id) use ($executor, &$runs) {
            $runs++;
            return $executor->executeParallel([new ToolCall("$id'", 'parallel')])[0];
        });
        $this->add('registry', function (array $arguments, string $id) use (&$runs) {
            $runs++;
            return $this->registry->execute('registry', [], "$id'");
        });
        foreach (['loop', 'parallel', 'registry'] as $tool) {
            $runs = 0;
            $result = $this->call($tool);
            self::assertSame(['internal_error', 64], [$result->errorCode, $runs], $tool);
            self::assertStringContainsString('Calls nest deeper than 64 levels', $result->error);
            self::assertSame('ABC', $this->call('upper', ['text' => 'abc'])->result, 'the next call is not deep');
        }
    }

    public function testTheDepthOfRecursiveApprovalsIsLimited(): void
    {
        $errors = [];
        $executor = new ToolExecutor($this->registry, [
            'approvals' => ['default' => 'always-ask'],
            'approve' => function (ToolCall $call) use (&$executor, &$errors): bool {
                $result = $executor->execute($call);
                $errors[] = $result->error;
                return $result->success;
            },
        ]);
        $result = $executor->execute(new ToolCall('1', 'upper', ['text' => 'abc']));
        self::assertSame('denied', $result->errorCode);
        self::assertCount(64, $errors);
        self::assertStringContainsString('Calls nest deeper than 64 levels', $errors[0]);
        self::assertSame("The call to tool 'upper' was denied", $errors[1]);
    }

    public function testTheDepthOfCallsInListenersIsLimited(): void
    {
        $executor = new ToolExecutor($this->registry);
        $deepest = null;
        $dispatcher = new Dispatcher(function (object $event) use ($executor, &$deepest): void {
            if ($event instanceof ToolCallStarted) {
                $result = $executor->execute(new ToolCall('1', 'upper', ['text' => 'abc']));
                $deepest ??= $result->error;
            }
        });
        $executor->setEventDispatcher($dispatcher);
        self::assertSame('ABC', $executor->execute(new ToolCall('1', 'upper', ['text' => 'abc']))->result);
        self::assertStringContainsString('Calls nest deeper than 64 levels', $deepest);
    }

    public function testFibersThatWaitInToolsDoNotCountAsNesting(): void
    {
        $this->add('suspends', fn () => \Fiber::suspend());
        $fibers = [];
        for ($i = 0; $i < 70; $i++) {
            $fibers[$i] = new \Fiber(fn () => $this->call('suspends')->result);
            $fibers[$i]->start();
        }
        self::assertSame('ABC', $this->call('upper', ['text' => 'abc'])->result);
        foreach ($fibers as $i => $fiber) {
            $fiber->resume($i);
            self::assertSame($i, $fiber->getReturn());
        }
    }

    public function testAFiberMaySuspendInsideATool(): void
    {
        $this->add('suspends', fn () => \Fiber::suspend('waiting') . '!');
        $fiber = new \Fiber(fn () => $this->call('suspends')->result);
        self::assertSame('waiting', $fiber->start());
        self::assertSame('ABC', $this->call('upper', ['text' => 'abc'])->result);
        $fiber->resume('go on');
        self::assertSame('go on!', $fiber->getReturn());
    }

    /**
     * @group extension
     * @group timing
     */
    public function testToolsInPHPAndMCPToolsRunConcurrently(): void
    {
        $this->registerServer();
        $this->add('nap', function () {
            usleep(800_000);
            return 'php';
        });
        $started = microtime(true);
        $results = (new ToolExecutor($this->registry))->executeParallel([
            new ToolCall('1', 'slow', ['seconds' => 0.8]),
            new ToolCall('2', 'slow', ['seconds' => 0.8]),
            new ToolCall('3', 'nap'),
        ]);
        self::assertSame([true, true, true], array_column($results, 'success'));
        self::assertLessThan(2.3, microtime(true) - $started, 'one after the other they take 2.4 s');
    }

    /** @group extension */
    public function testC1PHPCodeRunsWhileTheServerIsBusy(): void
    {
        $this->registerServer();
        $busy = [];
        $this->add('work', function () use (&$busy) {
            $busy[] = microtime(true);
            usleep(50_000);
            return 'php';
        });
        $calls = [];
        for ($i = 0; $i < 4; $i++) {
            $calls[] = new ToolCall("slow$i", 'slow', ['seconds' => 1.5]);
            $calls[] = new ToolCall("work$i", 'work');
        }
        $started = microtime(true);
        $results = (new ToolExecutor($this->registry, ['max_concurrent' => 8]))->executeParallel($calls);
        $took = microtime(true) - $started;
        self::assertSame(array_fill(0, 8, true), array_column($results, 'success'));
        self::assertSame(array_column($calls, 'id'), array_column($results, 'toolCallId'));
        self::assertLessThan($started + 1.5, end($busy), 'tools in PHP waited for the server');
        self::assertLessThan(6, $took, 'one after the other they take 6.2 s');
    }

    public function testC2C7LimitsOfToolsHoldInParallel(): void
    {
        $this->registerServer();
        $executor = new ToolExecutor($this->registry, [
            'tool_timeouts' => ['slow' => 0.1],
            'rate_limits' => ['tools' => ['upper' => ['per_minute' => 1]]],
        ]);
        $results = $executor->executeParallel([
            new ToolCall('1', 'slow', ['seconds' => 0.5]),
            new ToolCall('2', 'upper', ['text' => 'a']),
            new ToolCall('3', 'upper', ['text' => 'b']),
            new ToolCall('4', 'calculator', ['expression' => '1']),
        ]);
        self::assertSame(['timeout', null, 'rate_limited', null], array_column($results, 'errorCode'));
    }

    public function testC1AToolMayHaveItsOwnConcurrencyLimit(): void
    {
        $this->registerServer();
        $executor = new ToolExecutor($this->registry, ['tool_concurrency' => ['slow' => 1]]);
        $slow = fn (string $id) => new ToolCall($id, 'slow', ['seconds' => 0.2]);
        $started = microtime(true);
        $results = $executor->executeParallel([$slow('1'), $slow('2'), $slow('3'), new ToolCall('4', 'upper', ['text' => 'a'])]);
        self::assertSame(array_fill(0, 4, true), array_column($results, 'success'));
        self::assertSame(['1', '2', '3', '4'], array_column($results, 'toolCallId'));
        self::assertGreaterThanOrEqual(0.6, microtime(true) - $started);
        $this->expectException(InvalidInputException::class);
        $this->expectExceptionMessage("Invalid executor option 'tool_concurrency.slow': ");
        new ToolExecutor($this->registry, ['tool_concurrency' => ['slow' => 0]]);
    }

    public function testC1AServerHasItsOwnConcurrencyLimitAndDelaysNoOther(): void
    {
        $this->registerServer();
        $ended = [];
        $this->add('work', function () use (&$ended) {
            $ended[] = microtime(true);
            return 'php';
        });
        $one = ['fake' => 1, FakeServer::url() => 1];
        $executor = new ToolExecutor($this->registry, ['server_concurrency' => $one]);
        $slow = fn (string $id) => new ToolCall($id, 'slow', ['seconds' => 0.5]);
        $started = microtime(true);
        $results = $executor->executeParallel([$slow('1'), $slow('2'), $slow('3'), new ToolCall('4', 'work')]);
        self::assertSame(array_fill(0, 4, true), array_column($results, 'success'));
        self::assertGreaterThanOrEqual(1.5, microtime(true) - $started);
        self::assertLessThan($started + 1.4, $ended[0], 'a tool in PHP waited for those of the server');
        foreach (['max_concurrent_local' => 0, 'max_concurrent_total' => 0, 'server_concurrency' => ['a' => 0]] as $key => $wrong) {
            $e = Expect::exception(InvalidInputException::class, fn () => new ToolExecutor($this->registry, [$key => $wrong]), failure: "$key was taken");
            self::assertStringStartsWith("Invalid executor option '$key", $e->getMessage());
        }
    }

    public function testM2LoggerAndDispatcherReceiveEachCall(): void
    {
        $this->registerServer();
        $this->add('fails', fn () => throw new \DomainException('a secret'));
        $logger = new Logger();
        $dispatcher = new Dispatcher();
        $executor = new ToolExecutor($this->registry);
        self::assertSame($executor, $executor->setLogger($logger)->setEventDispatcher($dispatcher));
        $executor->executeAll([new ToolCall('1', 'roll', ['dice' => '1d6']), new ToolCall('2', 'fails'), new ToolCall('3', 'nope')]);
        $server = $dispatcher->events[0]->server;
        self::assertNotEmpty($server);
        self::assertSame([
            ['info', 'Tool call succeeded', ['tool' => 'roll', 'call_id' => '1', 'server' => $server, 'error_code' => null]],
            ['warning', 'Tool call failed', ['tool' => 'fails', 'call_id' => '2', 'server' => null, 'error_code' => 'internal_error']],
            ['warning', 'Tool call failed', ['tool' => 'nope', 'call_id' => '3', 'server' => null, 'error_code' => 'not_found']],
        ], array_map(fn (array $line) => [$line[0], $line[1], array_diff_key($line[2], ['seconds' => 0])], $logger->lines));
        self::assertSame(
            array_merge(...array_fill(0, 3, [ToolCallStarted::class, ToolCallFinished::class])),
            array_map('get_class', $dispatcher->events),
        );
        [$started, $finished] = array_slice($dispatcher->events, 2, 2);
        self::assertSame(['fails', '2', null], [$started->toolName, $started->toolCallId, $started->server]);
        self::assertSame([false, 'internal_error'], [$finished->success, $finished->errorCode]);
        self::assertGreaterThan(0, $finished->seconds);

        $executor->setLogger(null)->setEventDispatcher(null)->execute(new ToolCall('4', 'nope'));
        self::assertCount(3, $logger->lines);
    }

    public function testAListenerThatThrowsEndsTheExecution(): void
    {
        $executor = (new ToolExecutor($this->registry))->setEventDispatcher(new Dispatcher(fn () => throw new \DomainException('no more')));
        $e = Expect::exception(\DomainException::class, fn () => $executor->execute(new ToolCall('1', 'upper', ['text' => 'a'])));
        self::assertSame('no more', $e->getMessage());
        self::assertSame('A', $executor->setEventDispatcher(null)->execute(new ToolCall('1', 'upper', ['text' => 'a']))->result);
    }

    public function testALoggerWithoutLogIsRefused(): void
    {
        $this->expectException(InvalidInputException::class);
        $this->expectExceptionMessage('$logger must have the method log(), which stdClass does not have');
        (new ToolExecutor($this->registry))->setLogger(new \stdClass());
    }

    public function testUnknownOptionsAreNamed(): void
    {
        Expect::exception(InvalidInputException::class, fn () => new ToolExecutor($this->registry, ['timout' => 5]), 'timout');
    }

    public function testAnInvalidCallIsRejected(): void
    {
        $this->expectException(InvalidInputException::class);
        $this->expectExceptionMessage('A call must be a Pillion\ToolCall or an array');
        (new ToolExecutor($this->registry))->executeParallel([5]);
    }

    public function testAnyConcurrencyLimitIsAccepted(): void
    {
        $registry = ToolRegistry::withBuiltins();
        $executor = new ToolExecutor($registry, ['max_concurrent' => PHP_INT_MAX]);
        self::assertSame('4', $executor->execute(['id' => '1', 'name' => 'calculator', 'arguments' => ['expression' => '2+2']])->result);
    }

    public function testExceptionMessagesNeedNotBeUtf8(): void
    {
        $registry = new ToolRegistry();
        $registry->register(new ToolDefinition('f', 'Throws'), fn () => throw new \RuntimeException("caf\xE9 closed"));
        self::assertSame('caf\xE9 closed', (new ToolExecutor($registry))->execute(['id' => '1', 'name' => 'f'])->error);
    }
}
