<?php

declare(strict_types=1);

namespace Pillion\Tests\Library;

use Pillion\Event\ToolCallFinished;
use Pillion\Event\ToolCallStarted;
use Pillion\Exception\InvalidInputException;
use Pillion\Exception\TransportException;
use Pillion\Tests\Support\Dispatcher;
use Pillion\Tests\Support\Expect;
use Pillion\Tests\Support\Process;
use Pillion\Tests\Support\SidecarProcess;
use Pillion\ToolCall;
use Pillion\ToolDefinition;
use Pillion\ToolExecutor;
use Pillion\ToolRegistry;
use PHPUnit\Framework\TestCase;

/**
 * The connection of an executor to the sidecar.
 *
 * @group library
 */
final class ExecutorTest extends TestCase
{
    private string $socket;
    private ?SidecarProcess $sidecar = null;
    private ToolRegistry $registry;

    protected function setUp(): void
    {
        $this->socket = (string) getenv('PILLION_SOCKET');
        $this->registry = ToolRegistry::withBuiltins();
    }

    protected function tearDown(): void
    {
        $this->sidecar?->stop();
        putenv("PILLION_SOCKET=$this->socket");
    }

    /** Starts a sidecar for this test alone. */
    private function startSidecar(): SidecarProcess
    {
        $this->sidecar = new SidecarProcess();
        putenv("PILLION_SOCKET={$this->sidecar->socket}");
        return $this->sidecar;
    }

    private function add(string $name, callable $handler): void
    {
        $this->registry->register(new ToolDefinition($name, 'A test'), $handler);
    }

    public function testAnExecutorReconnectsToARestartedSidecar(): void
    {
        $sidecar = $this->startSidecar();
        $this->add('mine', fn () => 'works');
        $executor = new ToolExecutor($this->registry);
        self::assertSame('works', $executor->execute(new ToolCall('1', 'mine'))->result);
        $sidecar->restart();
        self::assertSame('works', $executor->execute(new ToolCall('2', 'mine'))->result);
    }

    public function testACallWhoseSidecarEndsIsUnavailableAndNotRepeated(): void
    {
        $sidecar = $this->startSidecar();
        $runs = 0;
        $this->add('ends', function () use ($sidecar, &$runs): string {
            $runs++;
            $sidecar->kill();
            return 'never read';
        });
        $dispatcher = new Dispatcher();
        $executor = (new ToolExecutor($this->registry))->setEventDispatcher($dispatcher);
        $results = $executor->executeAll([new ToolCall('1', 'ends'), new ToolCall('2', 'ends')]);
        self::assertSame(['unavailable', 'unavailable'], array_column($results, 'errorCode'));
        self::assertSame('The sidecar closed the connection', $results[0]->error);
        self::assertSame(1, $runs);
        $classes = [ToolCallStarted::class, ToolCallFinished::class];
        self::assertSame([...$classes, ...$classes], array_map(get_class(...), $dispatcher->events));
    }

    public function testAnExceptionOfAListenerEndsTheOtherCallsToo(): void
    {
        $ended = [];
        $executor = (new ToolExecutor($this->registry))->setEventDispatcher(new Dispatcher(function (object $event) use (&$ended): void {
            if ($event instanceof ToolCallFinished) {
                $ended[$event->toolCallId] = $event->errorCode;
                throw new TransportException('no more');
            }
        }));
        $this->add('mine', fn () => 'works');
        $e = Expect::exception(TransportException::class, fn () => $executor->execute(new ToolCall('1', 'mine')));
        self::assertSame('no more', $e->getMessage());
        self::assertSame(['1' => null], $ended);
        $executor->setEventDispatcher(null);
        self::assertSame('works', $executor->execute(new ToolCall('2', 'mine'))->result, 'the connection is still usable');
    }

    public function testAChildProcessOfAToolDoesNotEndTheCall(): void
    {
        $code = <<<'PHP'
            $registry = new Pillion\ToolRegistry();
            $registry->register(new Pillion\ToolDefinition('upper', 'd', [['name' => 'text', 'type' => 'string']]), fn (array $given) => strtoupper($given['text']));
            $executor = new Pillion\ToolExecutor($registry);
            $registry->register(new Pillion\ToolDefinition('forks', 'd'), function () use ($executor) {
                $child = pcntl_fork();
                if ($child === 0) {
                    return 'the child';
                }
                pcntl_waitpid($child, $status);
                return 'the parent';
            });
            $parent = getmypid();
            $result = $executor->execute(['id' => '1', 'name' => 'forks']);
            $upper = $executor->execute(['id' => '2', 'name' => 'upper', 'arguments' => ['text' => 'abc']]);
            echo getmypid() === $parent ? 'parent' : 'child', ': ', $result->toMessage(), ', ', $upper->toMessage(), "\n";
            PHP;
        self::assertSame(
            "child: Error: The process was forked inside a tool: only the parent process can return the result of the tool, ABC\nparent: the parent, ABC\n",
            Process::php($code)['output'],
        );
    }

    public function testOutputsThatCannotBeSentFailTheirCall(): void
    {
        $this->add('large', fn () => str_repeat('x', 17_000_000));
        $this->add('name', fn () => ['outer' => ["\0name" => 1]]);
        $executor = new ToolExecutor($this->registry, ['max_output_bytes' => 100_000_000]);
        $large = $executor->execute(new ToolCall('1', 'large'));
        self::assertSame('internal_error', $large->errorCode);
        self::assertStringStartsWith("Tool 'large' returned 170001", (string) $large->error);
        $name = $executor->execute(new ToolCall('2', 'name'));
        self::assertSame('Names in the result must not begin with the character U+0000', $name->error);
        $given = $executor->execute(new ToolCall('3', 'large', '{"\u0000name": 1}'));
        self::assertSame(['invalid_input', 'Names in the arguments must not begin with the character U+0000'], [$given->errorCode, $given->error]);
        self::assertSame('42', $executor->execute(new ToolCall('4', 'calculator', ['expression' => '6*7']))->result);
    }

    public function testAnInvalidContextForTheSidecarFailsOnlyItsTools(): void
    {
        $this->add('mine', fn () => 'works');
        $calls = [new ToolCall('1', 'mine'), new ToolCall('2', 'calculator', ['expression' => '1'])];
        $results = (new ToolExecutor($this->registry))->executeParallel($calls, ['approval' => 5]);
        self::assertSame([null, "The context's 'approval' must be a string"], array_column($results, 'error'));
    }

    public function testToolsAndAliasesThatChangeAreSent(): void
    {
        $executor = new ToolExecutor($this->registry);
        $run = fn (string $name): mixed => $executor->execute(new ToolCall('1', $name))->result;
        $this->add('mine', fn () => 'first');
        $this->registry->alias('ours', 'mine');
        self::assertSame(['first', 'first'], [$run('mine'), $run('ours')]);
        $this->registry->register(new ToolDefinition('mine', 'Another'), fn () => 'second', replace: true);
        self::assertSame(['second', 'second'], [$run('mine'), $run('ours')]);
        $this->registry->unregister('mine');
        self::assertSame([null, null], [$run('mine'), $run('ours')]);
    }

    public function testWithoutASidecarASchemaIsCheckedAtTheFirstCall(): void
    {
        putenv('PILLION_SOCKET=/nonexistent/pillion.sock');
        $schema = ['type' => 'object', 'properties' => ['a' => ['type' => 'money']]];
        $this->registry->register(new ToolDefinition('broken', 'd', $schema), fn () => 1);
        new ToolExecutor($this->registry, ['timeot' => 1]);
        putenv("PILLION_SOCKET=$this->socket");
        $this->expectException(InvalidInputException::class);
        $this->expectExceptionMessage("Tool 'broken': Invalid JSON Schema at '/properties/a/type");
        (new ToolExecutor($this->registry))->execute(new ToolCall('1', 'calculator', ['expression' => '1']));
    }
}
