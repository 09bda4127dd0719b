<?php

declare(strict_types=1);

namespace Pillion\Tests;

use Pillion\CancellationToken;
use Pillion\Event\ToolCallFinished;
use Pillion\Event\ToolCallStarted;
use Pillion\Exception\PillionException;
use Pillion\Exception\RateLimitedException;
use Pillion\McpClient;
use Pillion\MCPSSEClient;
use Pillion\Tests\Support\Dispatcher;
use Pillion\Tests\Support\Expect;
use Pillion\Tests\Support\FakeServer;
use Pillion\Tests\Support\Process;
use Pillion\ToolDefinition;
use Pillion\ToolExecutor;
use Pillion\ToolRegistry;
use PHPUnit\Framework\TestCase;

/**
 * Each call with a start event has exactly one end event.
 *
 * @group extension
 */
final class McpClientEventsTest extends TestCase
{
    /** A dispatcher that records each event, and may throw at one. */
    private static function dispatcher(?string $throwAt = null): object
    {
        return new class ($throwAt) {
            /** @var list<string> */
            public array $reported = [];

            public function __construct(private readonly ?string $throwAt)
            {
            }

            public function dispatch(object $event): object
            {
                $word = match ($event::class) {
                    ToolCallStarted::class => "start $event->toolCallId",
                    ToolCallFinished::class => "end $event->toolCallId " . ($event->success ? 'ok' : $event->errorCode),
                    default => null,
                };
                if ($word !== null) {
                    $this->reported[] = $word;
                    $word === $this->throwAt && throw new \DomainException("at $word");
                }
                return $event;
            }
        };
    }

    private static function asks(): McpClient
    {
        return new McpClient(['command' => ['python3', __DIR__ . '/../servers/asks.py']], ['timeout' => 10, 'label' => 'events']);
    }

    private static function fake(): McpClient
    {
        return new McpClient(FakeServer::url(), ['timeout' => 20]);
    }

    /** @dataProvider thrown */
    public function testACallbackThatThrowsEndsItsCalls(\Closure $call, \Throwable $thrown, array $reported): void
    {
        $dispatcher = self::dispatcher();
        $client = self::asks()->setEventDispatcher($dispatcher)->onSampling(fn () => throw $thrown);
        $e = Expect::exception(\Throwable::class, fn () => $call($client, fn () => throw $thrown));
        self::assertSame($thrown, $e);
        self::assertSame($reported, $dispatcher->reported);
    }

    public static function thrown(): iterable
    {
        $failure = new \DomainException('no');
        $coded = new RateLimitedException('slower');
        $code = $coded->errorCode;
        yield 'callTool, progress' => [
            fn ($client, $throw) => $client->callTool('remark', [], ['id' => 'a', 'on_progress' => $throw]),
            $failure, ['start a', 'end a internal_error'],
        ];
        yield 'callTool, a question, with a code' => [
            fn ($client) => $client->callTool('ask', [], ['id' => 'a']), $coded, ['start a', "end a $code"],
        ];
        yield 'callTools' => [
            fn ($client) => $client->callTools([['id' => 'a', 'name' => 'hold'], ['id' => 'b', 'name' => 'ask']]),
            $failure, ['start a', 'start b', 'end a internal_error', 'end b internal_error'],
        ];
        yield 'a stream' => [
            fn ($client) => $client->streamTool('ask', [], ['id' => 'a'])->getResult(),
            $failure, ['start a', 'end a internal_error'],
        ];
    }

    public function testADroppedStreamHasAnEndEvent(): void
    {
        $dispatcher = self::dispatcher();
        $client = self::asks()->setEventDispatcher($dispatcher);
        $unread = $client->streamTool('hold', [], ['id' => 'a']);
        unset($unread);
        self::assertSame(['start a', 'end a cancelled'], $dispatcher->reported);
        foreach ($client->streamTool('remark', [], ['id' => 'b']) as $progress) {
            break;
        }
        self::assertSame(['start b', 'end b cancelled'], array_slice($dispatcher->reported, 2));
        $token = new CancellationToken();
        $stream = $client->streamTool('hold', [], ['id' => 'c', 'cancellation' => $token]);
        $token->cancel();
        $e = Expect::exception(PillionException::class, fn () => $stream->next());
        self::assertSame('cancelled', $e->errorCode);
        unset($stream);
        $stream = self::fake()->setEventDispatcher($dispatcher)->streamTool('roll', ['dice' => '1d6'], ['id' => 'd']);
        $stream->getResult();
        unset($stream);
        self::assertSame(['start c', 'end c cancelled', 'start d', 'end d ok'], array_slice($dispatcher->reported, 4));
    }

    public function testAStreamThatCannotStartHasAnEndEvent(): void
    {
        $dispatcher = self::dispatcher();
        $store = new class () {
            public function load(string $key): ?array
            {
                throw new \DomainException('no store');
            }

            public function save(string $key, ?array $tokens): void
            {
            }
        };
        $client = (new McpClient(FakeServer::url(), ['oauth' => ['redirect_uri' => 'http://127.0.0.1/']]))
            ->setTokenStore($store)->setEventDispatcher($dispatcher);
        Expect::exception(\DomainException::class, fn () => $client->streamTool('roll', [], ['id' => 'a']));
        self::assertSame(['start a', 'end a internal_error'], $dispatcher->reported);
    }

    /** @dataProvider throwingListeners */
    public function testAThrowingListenerDoesNotSuppressOtherEndEvents(string $throwAt, array $reported): void
    {
        $dispatcher = self::dispatcher($throwAt);
        $e = Expect::exception(\DomainException::class, fn () => self::fake()->setEventDispatcher($dispatcher)->callTools([['id' => 'a', 'name' => 'roll'], ['id' => 'b', 'name' => 'fails'], ['id' => 'c', 'name' => 'roll']]));
        self::assertSame("at $throwAt", $e->getMessage());
        self::assertSame($reported, $dispatcher->reported);
    }

    public static function throwingListeners(): iterable
    {
        yield ['start b', ['start a', 'start b', 'end a internal_error', 'end b internal_error']];
        $all = ['start a', 'start b', 'start c', 'end a ok', 'end b internal_error', 'end c ok'];
        yield ['end a ok', $all];
        yield ['end c ok', $all];
    }

    public function testTheSSEClientHasEvents(): void
    {
        $dispatcher = new Dispatcher();
        $client = (new MCPSSEClient(FakeServer::url(), options: ['label' => 'dice', 'headers' => ['x-key' => 'sekrit']]))->setEventDispatcher($dispatcher);
        $client->isAvailable();
        $dispatcher->events = [];
        $client->callTool('roll', ['dice' => 'hunter2']);
        self::assertTrue($client->callTool('fails')['isError']);
        Expect::exception(PillionException::class, fn () => $client->callTool('status', ['status' => 500]));
        $reported = $dispatcher->events;
        self::assertCount(6, $reported);
        foreach ([['roll', true, null], ['fails', false, 'internal_error'], ['status', false, 'unavailable']] as $place => [$tool, $success, $code]) {
            [$started, $finished] = array_slice($reported, 2 * $place, 2);
            self::assertInstanceOf(ToolCallStarted::class, $started);
            self::assertInstanceOf(ToolCallFinished::class, $finished);
            self::assertSame([$tool, 'dice'], [$started->toolName, $started->server]);
            self::assertSame([$tool, $started->toolCallId, 'dice', $success, $code], [$finished->toolName, $finished->toolCallId, $finished->server, $finished->success, $finished->errorCode]);
        }
        self::assertCount(3, array_unique(array_column($dispatcher->events(ToolCallStarted::class), 'toolCallId')));
        self::assertDoesNotMatchRegularExpression('/hunter2|sekrit/', serialize(array_map('get_object_vars', $reported)));
    }

    public function testAnExecutorEndedByAListenerHasAnEndEvent(): void
    {
        $dispatcher = self::dispatcher('start b');
        $registry = new ToolRegistry();
        $registry->register(new ToolDefinition('work', 'Works'), fn () => 'done');
        $e = Expect::exception(\DomainException::class, fn () => (new ToolExecutor($registry))->setEventDispatcher($dispatcher)->executeAll([
            ['id' => 'a', 'name' => 'work', 'arguments' => []],
            ['id' => 'b', 'name' => 'work', 'arguments' => []],
        ]));
        self::assertSame('at start b', $e->getMessage());
        self::assertSame(['start a', 'end a ok', 'start b', 'end b internal_error'], $dispatcher->reported);
    }

    public function testTheEndOfTheScriptIsNotDelayed(): void
    {
        $server = realpath(__DIR__ . '/../servers/asks.py');
        $ran = Process::php(<<<PHP
            \$dispatcher = new class () {
                public function dispatch(object \$event): object
                {
                    echo substr(strrchr(\$event::class, '\\\\'), 1), ' ', \$event->errorCode ?? '', "\n";
                    return \$event;
                }
            };
            \$client = (new Pillion\McpClient(['command' => ['python3', '$server']]))->setEventDispatcher(\$dispatcher);
            \$stream = \$client->streamTool('hold');
            \$client->onSampling(function () { exit('bye '); });
            \$client->callTool('ask');
            PHP);
        self::assertSame(['', 0], [$ran['errors'], $ran['exit']]);
        self::assertStringStartsWith("ToolCallStarted \nToolCallStarted \nbye ", $ran['output']);
        self::assertStringContainsString('ToolCallFinished cancelled', $ran['output']);
    }
}
