<?php

declare(strict_types=1);

namespace Pillion\Laravel\Tests;

use OutOfBoundsException;
use PHPUnit\Framework\AssertionFailedError;
use PHPUnit\Framework\Attributes\DataProvider;
use Pillion\Laravel\Facades\Pillion;
use Pillion\Laravel\Testing\RecordedCall;
use Pillion\Laravel\Testing\StrayToolCallException;
use Pillion\Tests\Support\Expect;
use Pillion\Tests\Support\FakeServer;
use Pillion\ToolDefinition;
use Pillion\ToolExecutor;
use Pillion\ToolRegistry;
use Pillion\ToolResult;

final class FakeTest extends TestCase
{
    protected function setUp(): void
    {
        parent::setUp();
        $this->configure(['servers' => ['dice' => ['url' => 'http://127.0.0.1:9/mcp']]]);
    }

    public function test_it_answers_instead_of_tools(): void
    {
        Pillion::fake([
            'calculator' => 42,
            'weather_*' => fn (array $arguments, RecordedCall $call) => "$call->tool in {$arguments['place']}",
            'broken' => new \RuntimeException('out of order'),
            'refused' => new ToolResult('', 'x', null, success: false, error: 'No', errorCode: 'denied'),
        ]);
        self::assertSame(42, Pillion::call('calculator', ['expression' => '1'])->result);
        self::assertSame('weather_now in Oslo', Pillion::call('weather_now', ['place' => 'Oslo'])->result);
        $broken = Pillion::call('broken');
        self::assertSame(['out of order', 'internal_error'], [$broken->error, $broken->errorCode]);
        $refused = Pillion::callTools([['id' => 'c', 'name' => 'refused', 'arguments' => []]])[0];
        self::assertSame(['c', 'refused', 'denied'], [$refused->toolCallId, $refused->toolName, $refused->errorCode]);
    }

    public function test_a_fake_survives_changes_of_the_client(): void
    {
        if (!extension_loaded('pillion')) {
            self::markTestSkipped('What servers ask is for the extension');
        }
        $this->configure(['servers' => ['dice' => ['url' => FakeServer::url(), 'prefix' => 'x_']]]);
        Pillion::fake(['x_roll' => 1]);
        self::assertSame(1, Pillion::call('x_roll', ['dice' => '1d6'])->result);
        Pillion::server('dice')->onSampling(fn () => null);
        self::assertSame(1, Pillion::call('x_roll', ['dice' => '1d6'])->result);
    }

    public function test_without_arguments_every_tool_is_faked(): void
    {
        Pillion::fake();
        $result = Pillion::call('anything');
        self::assertTrue($result->success);
        self::assertNull($result->result);
        self::assertTrue(Pillion::server('dice')->callTool('roll')->success);
        Pillion::assertToolCalled('anything', 1)->assertToolCalled('dice_roll');
    }

    public function test_arguments_are_checked_with_the_schema_of_the_tool(): void
    {
        Pillion::fake(['calculator' => 42]);
        self::assertSame('invalid_input', Pillion::call('calculator', ['expresion' => '1'])->errorCode);
        Pillion::assertToolNotCalled('calculator');
    }

    public function test_sequences(): void
    {
        Pillion::fake(['calculator' => Pillion::sequence([1])->pushError('busy', 'unavailable')->whenEmpty(3)]);
        $call = fn () => Pillion::call('calculator', ['expression' => '1']);
        self::assertSame([1, null, 3, 3], [$call()->result, $call()->result, $call()->result, $call()->result]);

        $empty = Pillion::sequence([1]);
        $empty->next();
        self::assertTrue($empty->isEmpty());
        Expect::exception(OutOfBoundsException::class, fn () => $empty->next());
    }

    public function test_other_tools_run_unless_stray_calls_are_prevented(): void
    {
        Pillion::fake(['weather' => 'sunny']);
        self::assertEquals(2, Pillion::call('calculator', ['expression' => '1 + 1'])->result);
        Pillion::assertToolCalled('calculator');

        Pillion::preventStrayCalls();
        Expect::exception(StrayToolCallException::class, fn () => Pillion::call('get_time'), "'get_time'");
        Expect::exception(StrayToolCallException::class, fn () => Pillion::server('dice')->callTool('roll'));
    }

    public function test_no_request_reaches_a_server_when_stray_calls_are_prevented(): void
    {
        $this->configure(['servers.dice.url' => FakeServer::url()]);
        $server = Pillion::server('dice');
        Pillion::fake(['roll' => 6]);
        self::assertNotSame([], $server->listTools());
        Pillion::preventStrayCalls();
        $ways = [
            'client' => fn () => $server->client(),
            'listTools' => fn () => $server->listTools(),
            'request' => fn () => $server->request('tools/list'),
            'setLoggingLevel' => fn () => Pillion::forUser('x')->server('dice')->setLoggingLevel('debug'),
        ];
        foreach ($ways as $method => $way) {
            $e = Expect::exception(StrayToolCallException::class, $way(...), failure: "$method() reached the server");
            self::assertStringContainsString("'dice' with $method()", $e->getMessage());
        }
        self::assertSame(6, $server->onNotification(fn () => null)->callTool('roll')->result);
    }

    public function test_every_way_to_call_a_tool_uses_the_fake(): void
    {
        $this->configure(['servers.dice.url' => FakeServer::url()]);
        $before = Pillion::executor();
        $model = Pillion::forModel(['function_calling' => true, 'mcp' => true]);
        $own = $this->app->make(ToolRegistry::class);
        Pillion::fake(['roll' => 'faked', 'dice_roll' => 'faked', 'calculator' => 'faked']);
        $call = ['id' => 'c', 'name' => 'calculator', 'arguments' => ['expression' => '1 + 1']];
        $server = Pillion::server('dice');
        $ways = [
            'call' => fn () => Pillion::call('calculator', ['expression' => '1 + 1']),
            'the tool of a server' => fn () => Pillion::call('dice_roll', ['dice' => '1d6']),
            'callTools' => fn () => Pillion::callTools([$call])[0],
            'parallel' => fn () => Pillion::parallel([$call])[0],
            'forUser' => fn () => Pillion::forUser('bob')->call('calculator', ['expression' => '1 + 1']),
            'forModel' => fn () => Pillion::forModel(['function_calling' => true])->execute([$call])[0],
            'executor' => fn () => Pillion::executor()->execute($call),
            'an executor from before' => fn () => $before->executeParallel([$call])[0],
            'tools of a model from before' => fn () => $model->execute([$call])[0],
            'the registry' => fn () => Pillion::registry()->execute('calculator', ['expression' => '1 + 1'], 'c'),
            'a tool of it' => fn () => Pillion::tools()['calculator']->execute(['expression' => '1 + 1'], 'c'),
            'that of the application' => fn () => $own->execute('calculator', ['expression' => '1 + 1'], 'c'),
            'an executor on it' => fn () => (new ToolExecutor($own))->executeParallel([$call])[0],
            'callTool' => fn () => $server->callTool('roll', ['dice' => '1d6']),
            'callTools of a server' => fn () => $server->callTools([['name' => 'roll', 'arguments' => []]])[0],
            'streamTool' => fn () => $server->streamTool('roll', ['dice' => '1d6'])->getResult(),
            'a queued server' => fn () => unserialize(serialize($server))->callTool('roll', ['dice' => '1d6']),
        ];
        $count = 0;
        foreach ($ways as $way => $result) {
            self::assertSame('faked', $result()->result, $way);
            self::assertCount(++$count, Pillion::recorded(), $way);
        }
        self::assertSame([], iterator_to_array($server->streamTool('roll')));
        self::assertSame([['type' => 'text', 'text' => 'faked']], $server->request('tools/call', ['name' => 'roll'])['content']);
        [$code, $output] = $this->artisanOutput('pillion:call calculator \'{"expression": "1 + 1"}\'');
        self::assertSame([0, "faked\n"], [$code, $output]);
        self::assertCount($count + 3, Pillion::recorded());
    }

    public function test_a_call_that_is_not_faked_is_recorded_when_it_runs(): void
    {
        $this->configure(['servers.dice.url' => FakeServer::url()]);
        Pillion::fake(['weather' => 'sunny']);
        self::assertSame('invalid_input', Pillion::call('calculator', ['expression' => 7])->errorCode);
        self::assertSame('not_found', Pillion::call('nothing')->errorCode);
        Pillion::assertNothingCalled();
        self::assertSame('2', Pillion::registry()->execute('calculator', ['expression' => '1 + 1'], 'c')->result);
        self::assertSame(15, Pillion::call('dice_roll', ['dice' => '1d6'])->result['total']);
        self::assertSame(15, Pillion::server('dice')->streamTool('roll', ['dice' => '1d6'])->getResult()->result['total']);
        Pillion::assertCalledInOrder(['calculator', 'dice_roll', 'dice_roll']);

        $tools = [Pillion::registry(), $this->app->make(ToolRegistry::class)];
        Pillion::preventStrayCalls();
        foreach ($tools as $registry) {
            self::assertStringContainsString("'get_time' without a fake", $registry->execute('get_time', [], 'c')->error);
        }
        foreach ([
            fn () => Pillion::sidecar(),
            fn () => Pillion::server('dice')->streamTool('roll'),
            fn () => Pillion::server('dice')->request('tools/call', ['name' => 'roll']),
        ] as $way) {
            Expect::exception(StrayToolCallException::class, $way);
        }
        Pillion::assertToolCalledTimes('*', 3);
    }

    public function test_calls_of_a_server(): void
    {
        Pillion::fake(['roll' => ['total' => 3], 'dice_shake' => ['total' => 4], 'down' => new \RuntimeException('down')]);
        $server = Pillion::server('dice');
        self::assertSame(['total' => 3], $server->callTool('roll', ['dice' => '1d6'])->result);
        $results = $server->callTools([['name' => 'shake', 'arguments' => []], ['name' => 'roll', 'arguments' => []]]);
        self::assertSame([4, 3], [$results[0]->result['total'], $results[1]->result['total']]);
        Pillion::assertToolCalled('roll', fn (array $arguments, RecordedCall $call) => $call->server === 'dice');
        $this->expectExceptionMessage('down');
        $server->callTool('down');
    }

    /** @return iterable<string, array{string, string}> */
    public static function fakedNames(): iterable
    {
        foreach (['dice_roll', 'roll', 'dice_*', 'ro*'] as $name) {
            foreach (['prefixed and listed', 'not listed'] as $how) {
                yield "$name, $how" => [$name, $how];
            }
        }
    }

    /** @dataProvider fakedNames */
    #[DataProvider('fakedNames')]
    public function test_a_tool_of_a_server_is_found_by_both_names(string $faked, string $how): void
    {
        $isListed = $how !== 'not listed';
        if ($isListed) {
            $this->configure(['servers.dice.url' => FakeServer::url()]);
        }
        $server = Pillion::server('dice');
        $call = ['id' => 'c', 'name' => 'dice_roll', 'arguments' => ['dice' => '1d6']];
        $onServer = ['name' => 'roll', 'arguments' => ['dice' => '1d6']];
        $model = ['function_calling' => true, 'mcp' => true];
        $ways = [
            'facade' => fn () => Pillion::call('dice_roll', ['dice' => '1d6']),
            'executor' => fn () => Pillion::executor()->execute($call),
            'callTool' => fn () => $server->callTool('roll', ['dice' => '1d6']),
            'callTools' => fn () => $server->callTools([$onServer])[0],
            'streamTool' => fn () => $server->streamTool('roll', ['dice' => '1d6'])->getResult(),
            'request' => fn () => new ToolResult('c', 'roll', $server->request('tools/call', $onServer)['content'][0]['text']),
        ] + ($isListed ? [
            'registry' => fn () => Pillion::registry()->execute('dice_roll', ['dice' => '1d6'], 'c'),
            'model' => fn () => Pillion::forModel($model)->execute([$call])[0],
            'call of a model' => fn () => Pillion::forModel($model)->call('dice_roll', ['dice' => '1d6']),
        ] : []);
        Pillion::fake([$faked => 'faked']);
        foreach ($ways as $way => $run) {
            $before = count(Pillion::recorded());
            self::assertSame('faked', $run()->result, $way);
            $calls = array_slice(Pillion::recorded(), $before);
            self::assertSame([['dice_roll', 'roll']], array_map(fn (RecordedCall $call) => $call->names()->all(), $calls), $way);
        }
        foreach (['dice_roll', 'roll', 'dice_*', 'ro*', '*'] as $asserted) {
            self::assertCount(count($ways), Pillion::recorded($asserted));
            Pillion::assertToolCalled($asserted)->assertToolCalled($asserted, ['dice' => '1d6'])->assertToolCalledTimes($asserted, count($ways));
            self::assertFails(fn () => Pillion::assertToolNotCalled($asserted));
            self::assertFails(fn () => Pillion::assertToolNotCalled($asserted, ['dice' => '1d6']));
        }
        foreach (['dice_rol', 'oll', 'ice_roll', 'other_roll', 'dice_dice_roll'] as $other) {
            Pillion::assertToolNotCalled($other);
            self::assertFails(fn () => Pillion::assertToolCalled($other));
        }
        foreach (['dice_roll', 'roll'] as $asserted) {
            Pillion::assertCalledInOrder(array_fill(0, count($ways), $asserted));
            self::assertFails(fn () => Pillion::assertCalledInOrder(array_fill(0, count($ways) + 1, $asserted)));
            self::assertFails(fn () => Pillion::assertCalledInOrder(array_fill(0, count($ways) - 1, $asserted)));
        }
    }

    public function test_a_stray_call_of_a_server_is_found_by_both_names(): void
    {
        $this->configure(['servers.dice.url' => FakeServer::url()]);
        Pillion::fake(['weather' => 'sunny']);
        Pillion::server('dice')->callTool('roll', ['dice' => '1d6']);
        Pillion::call('dice_roll', ['dice' => '1d6']);
        Pillion::assertToolCalled('roll', 2)->assertToolCalled('dice_roll', 2);
    }

    public function test_a_name_on_the_server_fakes_the_tool_for_models_if_the_server_offers_it_by_name(): void
    {
        $this->configure(['servers.dice.only' => ['roll']]);
        Pillion::fake(['roll' => 6])->preventStrayCalls();
        $model = Pillion::forModel(['function_calling' => true, 'mcp' => true]);
        self::assertContains('dice_roll', $model->names());
        self::assertNotContains('roll', $model->names());
        self::assertNotContains('dice_roll', Pillion::forModel(['function_calling' => true, 'mcp' => false])->names());
        self::assertSame(6, $model->call('dice_roll')->result);
        Pillion::assertToolCalled('roll', 1)->assertToolCalled('dice_roll', 1);
    }

    public function test_a_name_is_preferred_to_a_pattern(): void
    {
        Pillion::fake(['*' => 'any', 'dice_*' => 'of the server', 'roll' => 'roll', 'dice_shake' => 'shake']);
        $server = Pillion::server('dice');
        foreach (['roll' => 'roll', 'shake' => 'shake', 'throw' => 'any'] as $tool => $result) {
            self::assertSame($result, $server->callTool($tool)->result);
            self::assertSame($result, Pillion::call("dice_$tool", ['dice' => '1d6'])->result);
        }
    }

    public function test_a_tool_of_the_application_is_no_tool_of_a_server_whose_prefix_it_has(): void
    {
        $this->app->make(ToolRegistry::class)->register(new ToolDefinition('dice_count', 'A test'), fn () => 2);
        Pillion::fake(['count' => 'faked']);
        self::assertSame(2, Pillion::call('dice_count')->result);
        Pillion::assertToolCalled('dice_count')->assertToolNotCalled('count');
    }

    public function test_the_longest_prefix_names_the_server(): void
    {
        $this->configure(['servers.dice_box' => ['url' => 'http://127.0.0.1:9/mcp']]);
        Pillion::fake();
        Pillion::call('dice_box_roll');
        Pillion::assertToolCalled('roll')->assertToolNotCalled('box_roll');
    }

    private static function assertFails(\Closure $assertion): void
    {
        Expect::exception(AssertionFailedError::class, $assertion);
    }

    public function test_assertions(): void
    {
        Pillion::fake();
        Pillion::assertNothingCalled();
        Pillion::call('weather', ['place' => 'Oslo', 'units' => 'celsius']);
        Pillion::call('forecast', ['place' => 'Bergen']);
        Pillion::assertToolCalled('weather');
        Pillion::assertToolCalled('weather', 1);
        Pillion::assertToolCalled('weather', ['place' => 'Oslo']);
        Pillion::assertToolCalled('weather', fn (array $arguments) => $arguments['units'] === 'celsius');
        Pillion::assertToolNotCalled('weather', ['place' => 'Bergen']);
        Pillion::assertToolNotCalled('news');
        Pillion::assertCalledInOrder(['weather', 'forecast']);
        self::assertCount(2, Pillion::recorded());

        $failing = [
            fn () => Pillion::assertToolCalled('news'),
            fn () => Pillion::assertToolCalled('weather', 2),
            fn () => Pillion::assertToolCalled('weather', ['place' => 'Rome']),
            fn () => Pillion::assertToolCalled('weather', fn () => false),
            fn () => Pillion::assertToolNotCalled('weather'),
            fn () => Pillion::assertNothingCalled(),
            fn () => Pillion::assertCalledInOrder(['forecast', 'weather']),
        ];
        foreach ($failing as $index => $assertion) {
            Expect::exception(AssertionFailedError::class, $assertion, failure: "Assertion $index held");
        }
    }

    public function test_assertions_need_a_fake(): void
    {
        $this->expectException(\LogicException::class);
        $this->expectExceptionMessage('Call Pillion::fake() before Pillion::assertNothingCalled()');
        Pillion::assertNothingCalled();
    }
}
