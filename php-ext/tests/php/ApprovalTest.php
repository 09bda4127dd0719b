<?php

declare(strict_types=1);

namespace Pillion\Tests;

use Pillion\DmcpTool;
use Pillion\Exception\ApprovalRequiredException;
use Pillion\Exception\InvalidInputException;
use Pillion\Tests\Support\Expect;
use Pillion\Tests\Support\FakeServer;
use Pillion\ToolCall;
use Pillion\ToolDefinition;
use Pillion\ToolExecutor;
use Pillion\ToolRegistry;
use Pillion\ToolResult;
use PHPUnit\Framework\TestCase;

final class ApprovalTest extends TestCase
{
    private ToolRegistry $registry;
    /** @var list<string> what ran */
    private array $ran = [];

    protected function setUp(): void
    {
        $this->registry = ToolRegistry::withBuiltins();
        foreach (['roll', 'echo', 'delete'] as $name) {
            $definition = new ToolDefinition($name, 'A test', requiresConfirmation: $name === 'delete');
            $this->registry->register($definition, function () use ($name) {
                $this->ran[] = $name;
                return "did $name";
            });
        }
    }

    private function execute(array $options, string $name, array $arguments = [], array $context = []): ToolResult
    {
        return (new ToolExecutor($this->registry, $options))->execute(new ToolCall('c1', $name, $arguments), $context);
    }

    public function testG1TrustedToolsRunAndOthersNeedApproval(): void
    {
        $options = ['approvals' => ['default' => 'trusted-only', 'trusted_tools' => ['roll']]];
        self::assertTrue($this->execute($options, 'roll')->success);
        $asked = $this->execute($options, 'echo');
        self::assertSame(['approval_required', "The call to tool 'echo' needs approval"], [$asked->errorCode, $asked->error]);
        self::assertMatchesRegularExpression('/^[0-9a-f]{64}$/', $asked->metadata['approval_id']);
        self::assertSame(['roll'], $this->ran);
    }

    public function testG3AnApprovedCallRunsWithTheArgumentsOfTheApprover(): void
    {
        $options = ['approvals' => ['default' => 'always-ask']];
        $run = fn (array $context) => $this->execute($options, 'calculator', ['expression' => '6 * 8'], $context);
        $id = $run([])->metadata['approval_id'];
        $result = $run(['approved' => [$id => ['expression' => '6 * 7']]]);
        self::assertSame('42', (string) $result->result);
        self::assertSame(['expression' => '6 * 7'], $result->metadata['approved_arguments']);
        $note = 'Note: the person who approved this call changed its arguments. '
            . 'The call ran with: {"expression":"6 * 7"}';
        self::assertSame("42\n\n$note", $result->toMessage());
        self::assertSame('48', (string) $run(['approved' => [$id]])->result);
        // The arguments of the approver are checked like those of the call.
        $refused = $run(['approved' => [$id => ['expression' => []]]]);
        self::assertSame('invalid_input', $refused->errorCode);
        self::assertStringStartsWith('The arguments from the approver were rejected: ', $refused->error);
        self::assertSame('approval_required', $run(['approved' => [str_repeat('0', 64) => ['expression' => '1']]])->errorCode);
        $this->expectException(InvalidInputException::class);
        $this->expectExceptionMessage("The context's 'approved' must be a list of approval ids");
        $run(['approved' => [$id => 7]]);
    }

    public function testG3TheCallableMayChangeTheArguments(): void
    {
        $options = ['approvals' => ['default' => 'always-ask']];
        $run = fn (array $edited) => $this->execute($options + ['approve' => fn () => $edited], 'calculator', ['expression' => '6 * 8']);
        $result = $run(['expression' => '6 * 7']);
        self::assertSame('42', (string) $result->result);
        self::assertSame(['expression' => '6 * 7'], $result->metadata['approved_arguments']);
        $refused = $run(['expression' => []]);
        self::assertSame('invalid_input', $refused->errorCode);
        self::assertStringStartsWith('The arguments from the approver were rejected: ', $refused->error);
    }

    public function testG1ARuleMayUseAnAliasAndTheStrictestRuleWins(): void
    {
        $this->registry->alias('dice', 'roll');
        foreach ([['dice' => 'always-ask'], ['dice' => 'always-ask', 'roll' => 'auto']] as $tools) {
            foreach (['roll', 'dice'] as $name) {
                self::assertSame('approval_required', $this->execute(['approvals' => ['tools' => $tools]], $name)->errorCode);
            }
        }
        self::assertTrue($this->execute(['approvals' => ['default' => 'trusted-only', 'trusted_tools' => ['dice']]], 'roll')->success);
        self::assertSame(['roll'], $this->ran);
    }

    public function testG3WhatRunsIsTheToolThatWasApproved(): void
    {
        $approve = function (): bool {
            $this->registry->unregister('delete');
            $this->registry->register(new ToolDefinition('delete', 'Another'), function () {
                $this->ran[] = 'another';
            });
            return true;
        };
        $this->execute(['approve' => $approve], 'delete');
        self::assertNotContains('another', $this->ran);
        $this->execute([], 'delete');
        self::assertSame('another', end($this->ran));
    }

    public function testG2RequiresConfirmationOverridesThePolicy(): void
    {
        foreach ([[], ['approvals' => ['default' => 'auto', 'tools' => ['delete' => 'never'], 'trusted_tools' => []]]] as $options) {
            self::assertSame('approval_required', $this->execute($options, 'delete')->errorCode);
        }
        self::assertSame('approval_required', $this->registry->execute('delete', [], 'c1')->errorCode);
        self::assertTrue($this->execute(['approve' => fn () => true], 'delete')->success);
        self::assertSame(['delete'], $this->ran);
    }

    /**
     * @dataProvider serverEntries
     *
     * @param list<string> $asking
     */
    public function testG2TheEntryOfAServerSaysWhichToolsNeedApproval(mixed $said, array $asking, array $options = []): void
    {
        $registry = self::withServer($said);
        $asked = [];
        $executor = new ToolExecutor($registry, $options + ['approve' => function (ToolCall $call) use (&$asked) {
            $asked[] = $call->name;
        }]);
        foreach (['x_roll' => ['dice' => '1d20'], 'x_echo' => []] as $name => $arguments) {
            $result = $executor->execute(new ToolCall('c1', $name, $arguments), ['user' => 'alice']);
            self::assertSame(in_array($name, $asking, true) ? 'approval_required' : null, $result->errorCode, $name);
            if (!$result->success) {
                $approved = ['user' => 'alice', 'approved' => [$result->metadata['approval_id']]];
                self::assertTrue($executor->execute(new ToolCall('c2', $name, $arguments), $approved)->success);
            }
        }
        self::assertSame($asking, $asked);
    }

    public static function serverEntries(): iterable
    {
        $names = fn (string ...$names): array => ['tool_names' => $names];
        $both = ['x_roll', 'x_echo'];
        $defaultAsks = ['approvals' => ['default' => 'always-ask']];
        yield 'always' => ['always', $both];
        yield 'prompt' => ['prompt', $both];
        yield 'a policy' => ['trusted-only', ['x_echo'], ['approvals' => ['trusted_tools' => ['x_roll']]]];
        yield 'never' => ['never', [], $defaultAsks];
        yield 'nothing' => [null, []];
        yield 'nothing, and the default asks' => [null, $both, $defaultAsks];
        yield 'always for one' => [['always' => $names('echo')], ['x_echo']];
        yield 'always for one, and the default asks' => [['always' => $names('echo')], $both, $defaultAsks];
        yield 'never for one' => [['never' => $names('echo')], ['x_roll']];
        yield 'never for one, and the default asks' => [['never' => $names('echo')], ['x_roll'], $defaultAsks];
        yield 'both' => [['always' => $names('roll', 'slow'), 'never' => $names('echo', 'roll')], ['x_roll']];
        yield 'the name that it has here' => [['never' => $names('x_echo')], $both];
        yield 'the executor says more of the tool' => ['always', ['x_roll'], ['approvals' => ['tools' => ['x_echo' => 'auto']]]];
        yield 'the executor says more of the server' => ['always', [], ['approvals' => ['servers' => ['fake' => 'auto']]]];
    }

    public function testG2TheEntryAppliesToItsToolInEveryRegistry(): void
    {
        $registry = self::withServer(['always' => ['tool_names' => ['roll']]]);
        $tool = $registry->get('x_roll');
        self::assertSame('always', $tool->getMCPServerConfig()['require_approval']);
        self::assertArrayNotHasKey('require_approval', $registry->get('x_echo')->getMCPServerConfig());
        self::assertSame('approval_required', $tool->execute(['dice' => '1d20'], 'c1')->errorCode);
        self::assertSame('approval_required', $registry->execute('x_roll', ['dice' => '1d20'], 'c1')->errorCode);
        $this->registry->register($tool);
        self::assertSame('approval_required', $this->execute([], 'x_roll', ['dice' => '1d20'])->errorCode);
    }

    public function testG2TheEntryOfAPhpToolApplies(): void
    {
        $names = fn (string $name): array => ['tool_names' => [$name]];
        foreach ([
            ['always', 'approval_required'],
            ['never', null],
            [null, null],
            [['always' => $names('dmcp_roll_dice')], 'approval_required'],
            [['never' => $names('dmcp_roll_dice')], null],
            // The tool of the server that this tool calls.
            [['always' => $names('roll')], 'approval_required'],
        ] as [$said, $code]) {
            $registry = new ToolRegistry();
            $registry->register(new DmcpTool(['server_url' => FakeServer::url(), 'server_label' => 'fake', 'require_approval' => $said]));
            $call = new ToolCall('c1', 'dmcp_roll_dice', ['dice' => '1d20']);
            self::assertSame($code, (new ToolExecutor($registry))->execute($call)->errorCode, json_encode($said));
        }
    }

    /** @dataProvider unreadable */
    public function testG2AnInvalidEntryIsRejected(mixed $said): void
    {
        $entry = ['server_url' => FakeServer::url(), 'server_label' => 'fake', 'require_approval' => $said];
        foreach ([
            fn () => new DmcpTool($entry),
            fn () => (new ToolRegistry())->registerMcpServer($entry),
            fn () => new DmcpTool(['require_approval' => $said]),
        ] as $make) {
            $e = Expect::exception(InvalidInputException::class, $make(...));
            self::assertStringStartsWith("The server's 'require_approval' must be always, prompt, never or ", $e->getMessage());
        }
    }

    public static function unreadable(): iterable
    {
        foreach ([
            'maybe', '', 'Always', true, false, 1, [], ['always'], ['always' => []], ['always' => ['roll']], ['always' => null],
            ['sometimes' => ['tool_names' => ['roll']]], ['always' => ['tool_names' => 'roll']],
            ['always' => ['tool_names' => [1]]], ['always' => ['read_only' => true]],
            ['always' => ['tool_names' => ['roll'], 'read_only' => true]],
        ] as $said) {
            yield json_encode($said) => [$said];
        }
    }

    private static function withServer(mixed $said): ToolRegistry
    {
        $registry = new ToolRegistry();
        $before = ini_set('pillion.log_level', 'off');
        $registry->registerMcpServer(['server_url' => FakeServer::url(), 'server_label' => 'fake', 'require_approval' => $said], 'x_');
        ini_set('pillion.log_level', (string) $before);
        return $registry;
    }

    public function testG3AnApprovedCallRunsLater(): void
    {
        $options = ['approvals' => ['default' => 'always-ask']];
        $asked = $this->execute($options, 'calculator', ['expression' => '1+1'], ['user' => 'alice']);
        self::assertSame(['expression' => '1+1'], $asked->metadata['arguments']);
        $approved = ['approved' => [$asked->metadata['approval_id']], 'user' => 'alice'];
        self::assertSame('2', $this->execute($options, 'calculator', ['expression' => '1+1'], $approved)->result);
        foreach ([
            [['expression' => '1+2'], $approved],
            [['expression' => '1+1'], ['user' => 'bob'] + $approved],
            [['expression' => '1+1'], ['user' => null] + $approved],
        ] as [$arguments, $context]) {
            self::assertSame('approval_required', $this->execute($options, 'calculator', $arguments, $context)->errorCode);
        }
    }

    public function testG3AnApprovalIsNotValidForAReplacementOfTheTool(): void
    {
        $handler = fn (): string => 'ran';
        $schema = ['type' => 'object', 'properties' => ['what' => ['type' => 'string']]];
        $tool = fn (string $description, array $schema) => fn (ToolRegistry $registry) => $registry->register(new ToolDefinition('wipe', $description, $schema), $handler);
        $away = fn (string $url) => fn (ToolRegistry $registry) => $registry->register(new DmcpTool(['server_label' => 'dice', 'server_url' => $url]));
        foreach ([
            'wipe' => [
                $tool('Wipes the cache', $schema),
                [$tool('Wipes the disk', $schema), $tool('Wipes the cache', ['properties' => ['what' => ['type' => 'string', 'default' => 'all']]] + $schema)],
            ],
            // No server listens at either address.
            'dmcp_roll_dice' => [$away('http://127.0.0.1:1/mcp'), [$away('http://127.0.0.1:2/mcp'), $away('http://127.0.0.1:1/other')]],
        ] as $name => [$asked, $others]) {
            $call = function (\Closure $register, array $context = []) use ($name): ToolResult {
                $registry = new ToolRegistry();
                $register($registry);
                $executor = new ToolExecutor($registry, ['approvals' => ['default' => 'always-ask']]);
                return $executor->execute(new ToolCall('c1', $name, ['what' => 'all', 'dice' => '1d6']), $context);
            };
            $approved = ['approved' => [$call($asked)->metadata['approval_id']]];
            self::assertNotSame('approval_required', $call($asked, $approved)->errorCode, 'the same tool again');
            foreach ($others as $other) {
                self::assertSame('approval_required', $call($other, $approved)->errorCode);
            }
        }
    }

    public function testG3ArgumentsDoNotChangeBeforeTheyAreApproved(): void
    {
        $json = '{"empty":{},"inner":{"map":{},"list":[]},"n":1.0}';
        $seen = null;
        $options = ['approvals' => ['default' => 'always-ask'], 'approve' => function (ToolCall $call) use (&$seen) {
            $seen = $call;
            return null;
        }];
        $asked = (new ToolExecutor($this->registry, $options))->execute(new ToolCall('c1', 'echo', $json));
        $encode = fn (mixed $value) => json_encode($value, JSON_PRESERVE_ZERO_FRACTION);
        self::assertSame([$json, $json], [$encode($asked->metadata['arguments']), $encode($seen->arguments)]);
        $e = Expect::exception(ApprovalRequiredException::class, fn () => $asked->throw());
        self::assertSame($json, $encode($e->arguments));
        // The shown call equals the approved call and has the same ID.
        $later = $this->execute($options, 'echo', $asked->metadata['arguments'], ['approved' => [$asked->metadata['approval_id']]]);
        self::assertSame('did echo', $later->result);
        self::assertSame([], $this->execute($options, 'echo')->metadata['arguments']);
    }

    /** @group extension */
    public function testG3IntegersBeyond64BitsAreShownWithAllTheirDigits(): void
    {
        $call = new ToolCall('c1', 'echo', '{"n":18446744073709551615,"f":1e300}');
        $asked = (new ToolExecutor($this->registry, ['approvals' => ['default' => 'always-ask']]))->execute($call);
        self::assertSame(['n' => '18446744073709551615', 'f' => 1e300], $asked->metadata['arguments']);
    }

    public function testG3ADenialIsReportedAndTakesPrecedence(): void
    {
        $options = ['approvals' => ['default' => 'always-ask'], 'approve' => fn () => true];
        $id = $this->execute(['approve' => null] + $options, 'roll')->metadata['approval_id'];
        $denied = $this->execute($options, 'roll', context: ['denied' => [$id], 'approved' => [$id]]);
        self::assertSame(['denied', "Error: The call to tool 'roll' was denied"], [$denied->errorCode, $denied->toMessage()]);
        self::assertSame([], $this->ran);
    }

    public function testG3TheCallableDecides(): void
    {
        $asked = [];
        $answers = ['calculator' => true, 'roll' => false, 'echo' => null];
        $executor = new ToolExecutor($this->registry, [
            'approvals' => ['default' => 'always-ask'],
            'approve' => function (ToolCall $call, ToolDefinition $definition, array $context) use (&$asked, $answers): ?bool {
                self::assertSame($call->name, $definition->name);
                self::assertSame(64, strlen($context['approval_id']));
                unset($context['approval_id']);
                $asked[$call->id] = [$call->arguments, $context];
                return $answers[$call->name];
            },
        ]);
        $calls = [new ToolCall('1', 'calculator', '{"expression": "6*7"}'), new ToolCall('2', 'roll'), new ToolCall('3', 'echo')];
        foreach (['executeAll', 'executeParallel'] as $method) {
            $asked = [];
            $results = $executor->$method($calls, ['user' => 'alice', 'channel' => 7, 'team' => ['x']]);
            self::assertSame(['42', null, null], array_column($results, 'result'));
            self::assertSame([null, 'denied', 'approval_required'], array_column($results, 'errorCode'));
            ksort($asked);
            $context = ['user' => 'alice', 'channel' => '7', 'team' => ['x']];
            self::assertSame([1 => [['expression' => '6*7'], $context], [[], $context], [[], $context]], $asked);
        }
        self::assertSame([], $this->ran);
    }

    public function testG3ACallableThatFailsApprovesNothing(): void
    {
        $result = $this->execute(['approve' => fn () => throw new \DomainException('no idea')], 'delete');
        self::assertSame(['internal_error', 'no idea'], [$result->errorCode, $result->error]);
        $result = $this->execute(['approve' => fn () => throw new InvalidInputException('x')], 'delete');
        self::assertFalse($result->success);
        foreach ([['yes', 'string'], [1, 'int'], [['a.txt'], 'array'], [[], 'array'], [(object) ['path' => 'a.txt'], 'stdClass']] as [$answer, $type]) {
            $result = $this->execute(['approve' => fn () => $answer], 'delete');
            self::assertSame("The callable 'approve' must return bool, arguments by name or null, not $type", $result->error);
        }
        // JSON cannot represent these arguments.
        self::assertFalse($this->execute(['approve' => fn () => ['path' => NAN]], 'delete')->success);
        self::assertSame([], $this->ran);
    }

    public function testTheCallableMayUseTheExecutorItself(): void
    {
        $executor = null;
        $executor = new ToolExecutor($this->registry, ['approve' => function () use (&$executor) {
            return $executor->execute(new ToolCall('in', 'roll'))->success;
        }]);
        self::assertTrue($executor->execute(new ToolCall('out', 'delete'))->success);
        self::assertSame(['roll', 'delete'], $this->ran);
    }

    public function testWaitingForAnApprovalDoesNotCountForTheTimeout(): void
    {
        $executor = new ToolExecutor($this->registry, [
            'timeout' => 1.0,
            'approvals' => ['tools' => ['calculator' => 'always-ask', 'echo' => 'always-ask']],
            'approve' => function () {
                usleep(1_100_000);
                return true;
            },
        ]);
        $results = $executor->executeParallel([
            new ToolCall('1', 'calculator', ['expression' => '1']),
            new ToolCall('2', 'roll'),
            new ToolCall('3', 'echo'),
            new ToolCall('4', 'roll'),
        ]);
        self::assertSame([null, null, null, null], array_column($results, 'error'));
    }

    /** @dataProvider badOptions */
    public function testBadOptionsAreNamed(array $options, string $message): void
    {
        Expect::exception(InvalidInputException::class, fn () => new ToolExecutor($this->registry, $options), $message);
    }

    public static function badOptions(): iterable
    {
        yield 'a callable that is none' => [['approve' => 'no such function'], "'approve': it must be callable or null, string given"];
        yield 'a policy that is none' => [['approvals' => ['default' => 'ask']], "'approvals.default'"];
        yield 'a policy of a tool' => [['approvals' => ['tools' => ['x' => true]]], "'approvals.tools.x'"];
        yield 'an unknown key' => [['approvals' => ['trusted' => []]], 'trusted'];
    }

    public function testIdsInTheContextMustBeStrings(): void
    {
        $this->expectException(InvalidInputException::class);
        $this->expectExceptionMessage("The context's 'approved' must be a list of approval ids");
        $this->execute([], 'roll', context: ['approved' => [5]]);
    }
}
