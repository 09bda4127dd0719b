<?php

declare(strict_types=1);

namespace Pillion\Tests;

use Pillion\Exception\InvalidInputException;
use Pillion\ToolCall;
use Pillion\ToolDefinition;
use Pillion\ToolExecutor;
use Pillion\ToolRegistry;
use Pillion\ToolResult;
use PHPUnit\Framework\TestCase;

/** The executor's option `before`. */
final class BeforeTest extends TestCase
{
    private ToolRegistry $registry;
    /** @var list<string> what ran */
    private array $ran = [];

    protected function setUp(): void
    {
        $this->registry = ToolRegistry::withBuiltins();
        foreach (['roll', 'echo', 'delete'] as $name) {
            $definition = new ToolDefinition(
                $name,
                'A test',
                [['name' => 'what', 'type' => 'string', 'required' => false, 'default' => 'all']],
                requiresConfirmation: $name === 'delete',
            );
            $this->registry->register($definition, function () use ($name) {
                $this->ran[] = $name;
                return "did $name";
            });
        }
        $this->registry->alias('dice', 'roll');
    }

    private function executor(callable $before, array $options = []): ToolExecutor
    {
        return new ToolExecutor($this->registry, ['before' => $before] + $options);
    }

    public function testItIsCalledForCallsThatAreAboutToRun(): void
    {
        $asked = [];
        $executor = $this->executor(function (ToolCall $call, ToolDefinition $definition, array $context) use (&$asked): ?ToolResult {
            $asked[$call->id] = [$call->name, $definition->name, $call->arguments, $context];
            return null;
        });
        $delete = ['id' => '5', 'name' => 'delete', 'arguments' => ['what' => 'a']];
        $context = ['user' => 'alice', 'channel' => 7, 'team' => ['x'], 'approval_id' => 'made up'];
        $id = $executor->execute($delete, $context)->metadata['approval_id'];
        self::assertSame([], $asked);
        $calls = [
            new ToolCall('1', 'dice', '{"what": "six"}'),
            new ToolCall('2', 'echo'),
            new ToolCall('3', 'calculator', ['expression' => 7]),
            new ToolCall('4', 'nothing'),
            $delete,
            new ToolCall('6', 'delete'),
            new ToolCall('7', 'calculator', ['expression' => '6*7']),
        ];
        $seen = ['user' => 'alice', 'channel' => '7', 'team' => ['x']];
        foreach (['executeAll', 'executeParallel'] as $method) {
            $asked = $this->ran = [];
            $results = $executor->$method($calls, ['approved' => [$id]] + $context);
            self::assertSame([null, null, 'invalid_input', 'not_found', null, 'approval_required', null], array_column($results, 'errorCode'));
            ksort($asked);
            self::assertSame([1, 2, 5, 7], array_keys($asked));
            self::assertSame(['roll', 'roll', ['what' => 'six'], $seen], $asked[1]);
            self::assertSame(['echo', 'echo', ['what' => 'all'], $seen], $asked[2]);
            ksort($asked[5][3]);
            self::assertSame(['approval_id' => $id, 'channel' => '7', 'team' => ['x'], 'user' => 'alice'], $asked[5][3]);
            self::assertSame(['expression' => '6*7'], $asked[7][2]);
            self::assertSame(['roll', 'echo', 'delete'], $this->ran);
        }
    }

    public function testAResultReplacesTheCall(): void
    {
        $executor = $this->executor(fn (ToolCall $call): ToolResult => match ($call->name) {
            'roll' => new ToolResult('?', '?', 'from elsewhere', data: ['n' => 6], metadata: ['source' => 'cache']),
            'echo' => new ToolResult('?', '?', ['partly'], false, 'Too often', 'rate_limited', metadata: ['retry_after' => 9]),
            'calculator' => new ToolResult('?', '?', null, false, 'no', 'no such code'),
        });
        foreach (['executeAll', 'executeParallel'] as $method) {
            [$roll, $echo, $sum] = $executor->$method([
                new ToolCall('a', 'dice'),
                new ToolCall('b', 'echo'),
                new ToolCall('c', 'calculator', ['expression' => '1']),
            ]);
            self::assertSame(['a', 'dice', true, 'from elsewhere'], [$roll->toolCallId, $roll->toolName, $roll->success, $roll->result]);
            self::assertSame([['n' => 6], 'cache'], [$roll->data, $roll->metadata['source']]);
            self::assertIsFloat($roll->metadata['execution_time']);
            self::assertSame(['b', 'Too often', 'rate_limited', ['partly']], [$echo->toolCallId, $echo->error, $echo->errorCode, $echo->result]);
            self::assertSame(9, $echo->metadata['retry_after']);
            self::assertSame(['internal_error', 'no'], [$sum->errorCode, $sum->error]);
        }
        self::assertSame([], $this->ran);
    }

    public function testReplacedCallsDoNotCountForLimits(): void
    {
        $answers = [new ToolResult('', '', 'kept'), new ToolResult('', '', 'kept'), null, null];
        $executor = $this->executor(
            function () use (&$answers): ?ToolResult {
                return array_shift($answers);
            },
            ['rate_limits' => ['tools' => ['roll' => ['per_minute' => 1]]]],
        );
        $results = array_map(fn () => $executor->execute(new ToolCall('c', 'roll')), range(1, 4));
        self::assertSame(['kept', 'kept', 'did roll', null], array_column($results, 'result'));
        self::assertSame('rate_limited', $results[3]->errorCode);
    }

    public function testAFailingCallableRunsNoTool(): void
    {
        $results = [];
        foreach ([
            fn () => throw new \DomainException('no idea'),
            fn () => (new ToolResult('', '', null, false, 'not today', 'unavailable'))->throw(),
            fn () => true,
            fn () => ['result' => 1],
        ] as $before) {
            $result = $this->executor($before)->execute(new ToolCall('c', 'roll'));
            $results[] = [$result->errorCode, $result->error];
        }
        self::assertSame([
            ['internal_error', 'no idea'],
            ['unavailable', 'not today'],
            ['internal_error', "The callable 'before' must return Pillion\\ToolResult or null, not bool"],
            ['internal_error', "The callable 'before' must return Pillion\\ToolResult or null, not array"],
        ], $results);
        self::assertSame([], $this->ran);
    }

    public function testApprovalComesBefore(): void
    {
        $order = [];
        $executor = $this->executor(
            function (ToolCall $call, ToolDefinition $definition, array $context) use (&$order) {
                $order[] = 'before ' . strlen($context['approval_id']);
            },
            ['approve' => function () use (&$order): bool {
                $order[] = 'approve';
                return count($order) < 3;
            }],
        );
        self::assertSame('did delete', $executor->execute(new ToolCall('c', 'delete'))->result);
        self::assertSame('denied', $executor->execute(new ToolCall('c', 'delete'))->errorCode);
        self::assertSame(['approve', 'before 64', 'approve'], $order);
    }

    public function testItMayUseTheExecutorAndDoesNotCountForTheTimeout(): void
    {
        $executor = null;
        $executor = $this->executor(function (ToolCall $call) use (&$executor): ?ToolResult {
            if ($call->name === 'roll') {
                usleep(1_100_000);
                return null;
            }
            return $call->name === 'echo' ? $executor->execute(new ToolCall('in', 'roll')) : null;
        }, ['timeout' => 1.0]);
        $results = $executor->executeParallel([
            new ToolCall('1', 'roll'),
            new ToolCall('2', 'echo'),
            new ToolCall('3', 'calculator', ['expression' => '1+1']),
        ]);
        self::assertSame([null, null, null], array_column($results, 'error'));
        self::assertSame(['did roll', 'did roll', '2'], array_column($results, 'result'));
    }

    /** @dataProvider callables */
    public function testItsObjectMayContainValuesThatAreNotJson(string $option): void
    {
        $object = new class () {
            public mixed $file = STDERR;
            public float $number = NAN;
            public ?object $itself = null;
            public int $asked = 0;

            public function ask(): ?bool
            {
                return $this->asked++ > 9;
            }

            public function enter(): mixed
            {
                return $this->asked++ > 9 ? 'never' : null;
            }
        };
        $object->itself = $object;
        $executor = new ToolExecutor($this->registry, [$option => [$object, $option === 'before' ? 'enter' : 'ask']]);
        $executor->execute(new ToolCall('c', 'delete'));
        $executor->execute(new ToolCall('c', 'roll'));
        self::assertSame(1, $object->asked);
    }

    public static function callables(): iterable
    {
        yield ['before'];
        yield ['approve'];
    }

    public function testItMustBeCallable(): void
    {
        $this->expectException(InvalidInputException::class);
        $this->expectExceptionMessage("Invalid executor option 'before': it must be callable or null, string given");
        new ToolExecutor($this->registry, ['before' => 'no such function']);
    }
}
