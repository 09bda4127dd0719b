<?php

declare(strict_types=1);

namespace Pillion\Tests;

use Pillion\Event\ServerConnected;
use Pillion\Event\ToolCallFinished;
use Pillion\Event\ToolCallStarted;
use Pillion\Exception\ApprovalRequiredException;
use Pillion\Exception\InvalidInputException;
use Pillion\Exception\PillionException;
use Pillion\Exception\UnavailableException;
use Pillion\McpClient;
use Pillion\Tests\Support\Dispatcher;
use Pillion\Tests\Support\Expect;
use Pillion\Tests\Support\FakeLlm;
use Pillion\Tests\Support\FakeServer;
use Pillion\Tests\Support\McpServer;
use Pillion\Tests\Support\Process;
use Pillion\Tests\Support\TalkativeLlm;
use Pillion\ToolAwareChat;
use Pillion\ToolDefinition;
use Pillion\ToolExecutor;
use Pillion\ToolRegistry;
use Pillion\ToolResult;
use PHPUnit\Framework\TestCase;

/**
 * Chats with the loop in this process (H2, H4 to H7).
 *
 * @group extension
 */
final class ChatTest extends TestCase
{
    private ToolRegistry $registry;

    /** @var list<string> what tools in PHP were given */
    private array $ran = [];

    protected function setUp(): void
    {
        $this->registry = ToolRegistry::withBuiltins();
        $text = [['name' => 'text', 'type' => 'string']];
        $this->registry->register(new ToolDefinition('shout', 'Shouts', $text), function (array $arguments): string {
            $this->ran[] = $arguments['text'];
            return strtoupper($arguments['text']);
        });
        $this->registry->register(new ToolDefinition('fail', 'Fails'), fn () => throw new \DomainException('no luck'));
        $this->registry->register(new ToolDefinition('delete', 'Deletes', $text, requiresConfirmation: true), function (array $arguments): string {
            $this->ran[] = "delete $arguments[text]";
            return "$arguments[text] is gone";
        });
    }

    /**
     * @param array<string, mixed> $model
     * @param array<string, mixed> $options
     * @param array<string, mixed> $executor
     */
    private function chat(array $model = [], array $options = [], array $executor = []): ToolAwareChat
    {
        $model += ['base_url' => FakeLlm::url(), 'model' => 'fake', 'tools' => ['function_calling' => true, 'mcp' => true]];
        return new ToolAwareChat(new ToolExecutor($this->registry, $executor), $model, $options);
    }

    public function testH5ToolsInPhpAndNativeOnesRun(): void
    {
        $answer = $this->chat()->send("shout {\"text\": \"hi\"}\ncalculator {\"expression\": \"6 * 7\"}\nfail {}\nshout {\"text\": \"ho\"}");
        self::assertSame('The tools say: HI; 42; {"error":"no luck"}; HO', $answer->text);
        self::assertSame([true, 'answered', 'fake', 'stop', 2], [$answer->success, $answer->status, $answer->model, $answer->finishReason, $answer->usage['requests']]);
        self::assertSame(['hi', 'ho'], $this->ran);
        $messages = json_decode($answer->state, true)['messages'];
        self::assertSame(['user', 'assistant', 'tool', 'tool', 'tool', 'tool', 'assistant'], array_column($messages, 'role'));
        $asked = array_column($messages[1]['tool_calls'], 'id');
        self::assertSame($asked, array_column($messages, 'tool_call_id'));
    }

    public function testH6AStreamReportsEvents(): void
    {
        $types = $texts = [];
        foreach ($stream = $this->chat()->stream("shout {\"text\": \"hi\"}\nshout {\"text\": \"ho\"}") as $event) {
            $types[] = $event->type;
            $texts[$event->type] = ($texts[$event->type] ?? '') . $event->text;
        }
        self::assertSame(['usage', 'status', 'tool_started', 'tool_started', 'tool_finished', 'tool_finished'], array_slice($types, 0, 6));
        self::assertSame('done', array_pop($types));
        self::assertNotContains('done', $types);
        self::assertSame(['Executing shout, shout...', 'The tools say: HI; HO'], [$texts['status'], $texts['delta']]);
        self::assertSame([$texts['delta'], $stream->getState()], [$event->answer->text, $event->answer->state]);
        self::assertSame($event->answer, $stream->getReturn());
    }

    public function testH6AnEndlessModelWaitsForTheReader(): void
    {
        $llm = new TalkativeLlm();
        $chat = $this->chat(['base_url' => $llm->url]);
        $stream = $chat->stream('0');
        self::assertSame('delta', $stream->current()->type);
        // The system buffers data between two sockets.
        $room = 16 * 1024 * 1024;
        $atRest = $llm->sentAtRest($room);
        self::assertLessThan($room, $atRest);
        for ($read = 0; $read < 5_000; $read++) {
            $stream->next();
            self::assertSame('delta', $stream->current()?->type);
        }
        // The chat continues as the stream is read, and ends with the stream, however the stream ends.
        self::assertGreaterThan($atRest, $llm->sentAtRest($atRest));
        self::assertNotNull($stream->getState());
        self::assertSame(0, $llm->seenWhen(fn (array $seen) => $seen['talking'] === 0)['talking']);
        $stream = $chat->stream('0');
        $stream->rewind();
        $llm->sentAtRest(PHP_INT_MAX);
        unset($stream);
        self::assertSame(0, $llm->seenWhen(fn (array $seen) => $seen['talking'] === 0)['talking']);
    }

    public function testH6CallsToPhpAreNotDelayedByUnreadText(): void
    {
        $llm = new TalkativeLlm();
        $asked = 0;
        $key = function () use (&$asked): string {
            return 'k' . ++$asked;
        };
        $stream = $this->chat(['base_url' => $llm->url, 'api_key' => $key])->stream('3000000');
        $stream->rewind();
        $llm->sentAtRest(PHP_INT_MAX);
        $answer = $stream->getReturn();
        self::assertSame(['Done.', ['hi'], 2], [$answer->text, $this->ran, $asked]);
    }

    /** @dataProvider providers */
    public function testH1EachProviderReceivesItsFormat(string $provider): void
    {
        $model = ['provider' => $provider, 'base_url' => FakeLlm::url($provider)];
        $said = "shout {\"text\": \"hi\"}\ncalculator {\"expression\": \"6 * 7\"}\nfail {}";
        $answer = $this->chat($model)->send($said);
        self::assertSame([null, 'answered', 2], [$answer->error, $answer->status, $answer->usage['requests']]);
        self::assertMatchesRegularExpression('/^The tools say: HI; 42; .*no luck/', $answer->text);
        self::assertEquals(['shout' => true, 'calculator' => true, 'fail' => false], array_column($answer->toolCalls, 'success', 'name'));

        $this->ran = $types = $texts = [];
        foreach ($stream = $this->chat($model)->stream($said) as $event) {
            $types[] = $event->type;
            $texts[$event->type] = ($texts[$event->type] ?? '') . $event->text;
        }
        self::assertSame(['hi'], $this->ran);
        self::assertSame('Executing shout, calculator, fail...', $texts['status']);
        self::assertSame([$answer->text, $answer->text], [$texts['delta'], $stream->getReturn()->text]);
        self::assertSame([3, 3, 1], [count(array_keys($types, 'tool_started')), count(array_keys($types, 'tool_finished')), count(array_keys($types, 'done'))]);
        self::assertSame('done', end($types));

        $again = $this->chat($model)->send('Thank you', $stream->getState());
        self::assertSame('You said: Thank you', $again->text);
        // The last request forbids calls, with or without tools.
        $limited = $this->chat($model, ['max_tool_rounds' => 1])->send($said);
        self::assertSame(['tool_rounds', $answer->text], [$limited->limitReached, $limited->text]);
    }

    public static function providers(): iterable
    {
        foreach (['openai', 'openai-responses', 'anthropic', 'google'] as $provider) {
            yield $provider => [$provider];
        }
    }

    public function testH4AtTheLimitTheModelAnswersWithText(): void
    {
        $stream = $this->chat(options: ['max_tool_rounds' => 1])->stream('shout {"text": "hi"}');
        $status = [];
        foreach ($stream as $event) {
            $event->type === 'status' && $status[] = $event->text;
        }
        self::assertSame(['Executing shout...', 'Maximum tool execution rounds reached. Generating final response...'], $status);
        self::assertSame('tool_rounds', $stream->getReturn()->limitReached);
        $answer = $this->chat(options: ['max_tool_calls' => 1, 'max_tool_rounds' => 9])->send('shout {"text": "hi"}');
        self::assertSame('tool_calls', $answer->limitReached);
    }

    public function testH2TheModelSeesItsToolsOnly(): void
    {
        $said = "shout {\"text\": \"hi\"}\ncalculator {\"expression\": \"1+1\"}";
        $few = $this->chat(['tools' => ['function_calling' => true, 'enabled_tools' => ['calculator']]]);
        self::assertSame(['calculator'], array_column($few->send($said)->toolCalls, 'name'));
        foreach ([['tools' => ['mcp' => true]], ['tools' => []], ['tools' => ['function_calling' => false]]] as $model) {
            self::assertSame("You said: $said", $this->chat($model)->send($said)->text);
        }
        self::assertSame("You said: $said", $this->chat(options: ['enable_tools' => false])->send($said)->text);
        self::assertSame([], $this->ran);
    }

    public function testH7ACallThatDidNotRunHasTheArgumentsOfTheModel(): void
    {
        $few = $this->chat(['tools' => ['function_calling' => true, 'enabled_tools' => ['shout']]], ['max_calls_per_answer' => 3]);
        $said = "shout {\"text\": \"hi\"}\nshout {\"text\": 5}\nshout {\"text\": \"cut\nshout {\"text\": \"one too many\"}";
        $arguments = array_column($few->send($said)->toolCalls, 'arguments', 'id');
        ksort($arguments);
        self::assertSame([['text' => 'hi'], ['text' => 5], '{"text": "cut', ['text' => 'one too many']], array_values($arguments));
    }

    public function testE1ToolsOfMcpServersRun(): void
    {
        ini_set('pillion.log_level', 'off');
        $this->registry->registerMcpServer(new McpClient(McpServer::url()), 'dice_');
        ini_restore('pillion.log_level');
        $answer = $this->chat()->send('dice_roll {"dice": "1d20"}');
        self::assertSame(['dice_roll', true], [$answer->toolCalls[0]['name'], $answer->toolCalls[0]['success']]);
        self::assertStringContainsString('15', $answer->text);
        $blind = $this->chat(['tools' => ['function_calling' => true]])->send('dice_roll {"dice": "1d20"}');
        self::assertSame([], $blind->toolCalls);
    }

    public function testH7AChatContinuesFromItsState(): void
    {
        $first = $this->chat(options: ['system' => 'Be brief'])->send('One');
        self::assertSame(['system', 'user', 'assistant'], array_column(json_decode($first->state, true)['messages'], 'role'));
        $second = $this->chat()->send([['role' => 'user', 'content' => 'Two']], $first->state);
        self::assertSame(['You said: Two', 2], [$second->text, $second->usage['requests']]);
        self::assertCount(5, json_decode($second->state, true)['messages']);
        self::assertSame($second->text, $this->chat()->stream(state: $second->state)->getReturn()->text);
    }

    public function testG3AChatContinuesAfterADecision(): void
    {
        $said = "delete {\"text\": \"a.txt\"}\nshout {\"text\": \"hi\"}";
        $context = ['user' => 'ann'];
        $waiting = $this->chat()->send($said, context: $context);
        self::assertSame(['awaiting_approval', ['hi']], [$waiting->status, $this->ran]);
        [$approval] = $waiting->approvals;
        self::assertSame(['delete', ['text' => 'a.txt']], [$approval['tool'], $approval['arguments']]);
        $e = Expect::exception(ApprovalRequiredException::class, fn () => $waiting->textOrThrow());
        self::assertSame([$approval['id'], 'delete', ['text' => 'a.txt']], [$e->approvalId, $e->toolName, $e->arguments]);
        $still = $this->chat()->send(state: $waiting->state, context: $context);
        self::assertSame('awaiting_approval', $still->status);
        $e = Expect::exception(InvalidInputException::class, fn () => $this->chat()->send('Hurry', $waiting->state, $context));
        self::assertStringContainsString("waits for approval '{$approval['id']}' of tool 'delete'", $e->getMessage());
        $answer = $this->chat()->send(state: $still->state, context: $context + ['approved' => [$approval['id']]]);
        self::assertSame(['The tools say: a.txt is gone; HI', ['hi', 'delete a.txt']], [$answer->text, $this->ran]);
        $denied = $this->chat()->send(state: $waiting->state, context: $context + ['denied' => [$approval['id']]]);
        self::assertSame(['answered', 'denied'], [$denied->status, $denied->toolCalls[0]['error_code']]);
        self::assertSame(['hi', 'delete a.txt'], $this->ran);
    }

    public function testG1TheExecutorsCallablesDecide(): void
    {
        $asked = [];
        $chat = $this->chat(executor: ['approve' => function ($call, $definition, array $context) use (&$asked): bool {
            $asked[] = [$call->name, $context['user']];
            return true;
        }]);
        $answer = $chat->send('delete {"text": "a.txt"}', context: ['user' => 'ann']);
        self::assertSame(['The tools say: a.txt is gone', [['delete', 'ann']]], [$answer->text, $asked]);
    }

    public function testC1TheMethodsOfAnExtendedExecutorRunTheCalls(): void
    {
        $executor = new class($this->registry) extends ToolExecutor {
            /** @var list<array{list<string>, array<string, mixed>}> */
            public array $batches = [];
            /** @var list<string> those of the last batch */
            public array $ids = [];
            public ?\Closure $instead = null;

            public function executeParallel(array $calls, array $context = []): array
            {
                $this->batches[] = [array_column($calls, 'name'), $context];
                $this->ids = array_column($calls, 'id');
                return $this->instead === null ? parent::executeParallel($calls, $context) : ($this->instead)();
            }
        };
        $chat = new ToolAwareChat($executor, ['base_url' => FakeLlm::url(), 'model' => 'fake', 'tools' => ['function_calling' => true]]);
        $said = "shout {\"text\": \"hi\"}\ncalculator {\"expression\": \"6 * 7\"}\ndelete {\"text\": \"a\"}";
        $waiting = $chat->send($said, context: ['user' => 'ann']);
        self::assertSame('awaiting_approval', $waiting->status);
        self::assertSame([[['shout', 'calculator', 'delete'], ['user' => 'ann']]], $executor->batches);
        $context = ['user' => 'ann', 'approved' => [$waiting->approvals[0]['id']]];
        $stream = $chat->stream(state: $waiting->state, context: $context);
        self::assertSame('The tools say: HI; 42; a is gone', $stream->getReturn()->text);
        self::assertSame([['delete'], $context], $executor->batches[1]);
        // The approval was for one call: an equal call needs another approval.
        $waiting = $chat->send('delete {"text": "a"}', context: $context);
        self::assertSame(['awaiting_approval', []], [$waiting->status, $executor->batches[2][1]['approved']]);

        $executor->instead = fn () => array_reverse([new ToolResult($executor->ids[0], 'shout', 'one'), new ToolResult($executor->ids[1], 'shout', 'two'), new ToolResult('unknown', 'shout', 'three')]);
        self::assertSame('The tools say: one; two', $chat->send("shout {\"text\": \"1\"}\nshout {\"text\": \"2\"}")->text);
        $executor->instead = fn () => [new ToolResult($executor->ids[1], 'shout', 'two')];
        self::assertSame(
            'The tools say: {"error":"executeParallel() returned no result for the call of tool \'shout\'"}; two',
            $chat->send("shout {\"text\": \"1\"}\nshout {\"text\": \"2\"}")->text,
        );
        foreach (['returned no result for the call' => fn () => [], 'but the list contains int' => fn () => [5], 'no luck' => fn () => throw new \DomainException('no luck')] as $why => $instead) {
            $executor->instead = $instead;
            self::assertStringContainsString($why, $chat->send('shout {"text": "hi"}')->text);
        }
    }

    public function testM2ADispatcherReceivesCalls(): void
    {
        $dispatcher = new Dispatcher();
        $executor = new ToolExecutor($this->registry);
        $executor->setEventDispatcher($dispatcher);
        $chat = new ToolAwareChat($executor, ['base_url' => FakeLlm::url(), 'model' => 'fake', 'tools' => ['function_calling' => true]]);
        $chat->send('shout {"text": "hi"}');
        self::assertSame([ToolCallStarted::class, ToolCallFinished::class], array_map(get_class(...), $dispatcher->events));
        foreach ($chat->stream('shout {"text": "hi"}') as $event) {
            if ($event->type === 'tool_started') {
                // The tool is PHP code, and runs at the next read.
                break;
            }
        }
    }

    public function testAnAbandonedStreamStops(): void
    {
        $stream = $this->chat()->stream('shout {"text": "hi"}');
        foreach ($stream as $event) {
            if ($event->type === 'tool_started') {
                break;
            }
        }
        $state = $stream->getState();
        unset($stream, $event);
        self::assertSame([], $this->ran);
        // Whether the tool ran is unknown, so it does not run again.
        $answer = $this->chat()->send(state: $state);
        self::assertStringContainsString('was interrupted', $answer->text);
        self::assertSame([['text' => 'hi']], array_column($answer->toolCalls, 'arguments'));
        self::assertSame([], $this->ran);
    }

    public function testReadingTheStateOfAStreamEndsTheStream(): void
    {
        $said = "shout {\"text\": \"hi\"}\ncalculator {\"expression\": \"6 * 7\"}";
        $count = count(iterator_to_array($this->chat()->stream($said)));
        for ($left = 0; $left < $count; $left++) {
            $this->ran = [];
            $stream = $this->chat()->stream($said);
            for ($place = 0; $place < $left; $place++) {
                $stream->next();
            }
            $last = $stream->current();
            $state = $stream->getState();
            self::assertNotNull($state, "after $left");
            self::assertSame([$state, $last], [$stream->getState(), $stream->current()]);
            $stream->next();
            self::assertFalse($stream->valid());
            self::assertTrue($this->chat()->send(state: $state)->success);
            self::assertLessThanOrEqual(1, count($this->ran), "after $left");
        }
    }

    public function testAToolCannotReadTheStateOfItsChat(): void
    {
        $stream = null;
        $this->registry->register(new ToolDefinition('look', 'Looks'), function () use (&$stream): ?string {
            return $stream->getState();
        });
        $stream = $this->chat()->stream('look {}');
        self::assertStringContainsString('cannot read the events of the same chat', $stream->getReturn()->text);
    }

    public function testM2AThrowingListenerDoesNotLoseTheAnswer(): void
    {
        ini_set('pillion.log_level', 'off');
        $client = new McpClient(FakeServer::url());
        $this->registry->registerMcpServer($client, 'dice_');
        $dispatcher = new Dispatcher(fn () => throw new \DomainException('no luck'));
        $client->setEventDispatcher($dispatcher);
        foreach (['send', 'stream'] as $method) {
            // The next call reconnects, and the event is dispatched with the chat's answer.
            $client->disconnect();
            $answer = $this->chat()->$method('dice_roll {"dice": "1d20"}');
            $answer = $method === 'send' ? $answer : $answer->getReturn();
            self::assertSame('answered', $answer->status);
        }
        ini_restore('pillion.log_level');
        self::assertSame([ServerConnected::class, ServerConnected::class], array_map(get_class(...), $dispatcher->events));
    }

    public function testTheKeyIsReadForEachRequest(): void
    {
        $asked = 0;
        $key = function () use (&$asked): string {
            return 'k' . ++$asked;
        };
        $chat = $this->chat(['api_key' => $key]);
        self::assertTrue($chat->send('shout {"text": "hi"}')->success);
        self::assertSame(2, $asked);
        self::assertTrue($chat->stream('Hi')->getReturn()->success);
        self::assertSame(3, $asked);
    }

    public function testAMissingKeyIsAFailedAnswer(): void
    {
        foreach ([[fn () => throw new \DomainException('no vault'), 'no vault'], [fn () => 5, 'the callable must return a string, not int']] as [$key, $why]) {
            $answer = $this->chat(['api_key' => $key])->send('Hi');
            self::assertSame(['failed', 'unavailable', "The callable 'api_key' failed: $why"], [$answer->status, $answer->errorCode, $answer->error]);
        }
    }

    public function testNoDumpAndNoTraceContainsTheKey(): void
    {
        $chat = $this->chat(['api_key' => 's3cr3t-key', 'headers' => ['x-more' => 's3cr3t-header']]);
        ob_start();
        var_dump($chat);
        print_r($chat);
        self::assertStringNotContainsString('s3cr3t', ob_get_clean() . print_r((array) $chat, true));
        $e = Expect::exception(InvalidInputException::class, fn () => new ToolAwareChat(new ToolExecutor($this->registry), ['api_key' => 's3cr3t', 'headers' => ['no header' => 's3cr3t'], 'base_url' => FakeLlm::url(), 'model' => 'x']));
        self::assertStringNotContainsString('s3cr3t', $e . print_r($e->getTrace()[0], true));
    }

    public function testAfterAFailureOfTheModelTheChatCanContinue(): void
    {
        $gone = $this->chat(['base_url' => 'http://127.0.0.1:1/v1', 'max_retries' => 0]);
        $answer = $gone->send('Good morning');
        self::assertSame([false, 'failed', 'unavailable', null], [$answer->success, $answer->status, $answer->errorCode, $answer->text]);
        self::assertNotSame('', $answer->state);
        self::assertSame('You said: Good morning', $this->chat()->send(state: $answer->state)->text);
        $last = null;
        foreach ($gone->stream('Hi') as $event) {
            $last = $event;
        }
        self::assertSame('failed', $last?->answer->status);
        Expect::exception(UnavailableException::class, fn () => $answer->textOrThrow());
    }

    public function testTheTimeLimitHolds(): void
    {
        $answer = $this->chat(options: ['timeout' => 0])->send('Hi');
        self::assertSame(['failed', 'timeout'], [$answer->status, $answer->errorCode]);
    }

    public function testTheTokenLimitHolds(): void
    {
        $answer = $this->chat(options: ['max_total_tokens' => 10])->send(str_repeat('Hi ', 100));
        self::assertSame(['failed', 'rate_limited'], [$answer->status, $answer->errorCode]);
    }

    /** @return iterable<string, array{array<string, mixed>, array<string, mixed>, mixed, ?string, string}> */
    public static function wrongThings(): iterable
    {
        yield 'no model' => [['model' => ''], [], 'Hi', null, "Invalid model key 'model'"];
        yield 'no URL' => [['provider' => 'gwdg', 'base_url' => null], [], 'Hi', null, "Invalid model key 'base_url': it must be the provider's base URL"];
        yield 'a URL that is none' => [['base_url' => 'nowhere'], [], 'Hi', null, "Invalid model key 'base_url': it must be a URL"];
        yield 'a key in the URL' => [['base_url' => 'https://u:s3cret@x.example/'], [], 'Hi', null, "use 'api_key'"];
        yield 'an API that there is not' => [['api' => 'hal9000'], [], 'Hi', null, "Unknown provider 'hal9000'"];
        yield 'a key that is none' => [['api_key' => 5], [], 'Hi', null, "Invalid model key 'api_key': it must be a string or callable, int given"];
        yield 'a header that is none' => [['headers' => ['a b' => 'c']], [], 'Hi', null, "Invalid model key 'headers'"];
        yield 'headers that are none' => [['headers' => 'Authorization: Bearer s3cret'], [], 'Hi', null, "Invalid model key 'headers': expected a map"];
        yield 'a header that is a number' => [['headers' => ['x-key' => 777]], [], 'Hi', null, "Invalid model key 'headers.x-key': expected a string"];
        yield 'a way to think' => [['reasoning' => 'high'], [], 'Hi', null, "Invalid model key 'reasoning': expected a boolean"];
        yield 'a time without end' => [[], ['timeout' => PHP_INT_MAX], 'Hi', null, 'timeout must be a number of seconds'];
        yield 'an empty state' => [[], [], 'Hi', '', '$state must not be empty'];
        yield 'a scheme that is not spoken' => [['base_url' => 'ftp://x.example/'], [], 'Hi', null, 'only https:// and http:// URLs'];
        yield 'flags that are none' => [['tools' => ['function_calling' => 'maybe']], [], 'Hi', null, 'function_calling'];
        yield 'an option that there is not' => [[], ['sytem' => 'x'], 'Hi', null, "Invalid chat option 'sytem': unknown field `sytem`"];
        yield 'an option of another type' => [[], ['max_tool_rounds' => 'x'], 'Hi', null, "Invalid chat option 'max_tool_rounds'"];
        yield 'no message' => [[], [], null, null, 'A new chat needs a $message'];
        yield 'a message that is none' => [[], [], ['Hi'], null, '$message must be a string or a list of messages'];
        yield 'a state that is none' => [[], [], 'Hi', '{}', 'The state of the chat cannot be read'];
        yield 'the state of another provider' => [['provider' => 'anthropic', 'base_url' => 'http://127.0.0.1:1'], [], 'Hi', '{"format":1,"provider":"openai","messages":[],"rounds":0,"tool_calls":0,"requests":0,"usage":{"input_tokens":0,"output_tokens":0,"cached_tokens":0},"spent_tokens":0,"round_at":0,"round":null,"answer":null}', "the chat is stored in the format of the provider 'openai'"];
    }

    /** @dataProvider wrongThings */
    public function testErrorsAreClear(array $model, array $options, mixed $said, ?string $state, string $message): void
    {
        foreach (['send', 'stream'] as $method) {
            $e = Expect::exception(PillionException::class, fn () => $this->chat($model, $options)->$method($said, $state), failure: "$method took it");
            self::assertInstanceOf(InvalidInputException::class, $e);
            self::assertStringContainsString($message, $e->getMessage());
            self::assertDoesNotMatchRegularExpression('/s3cret|777/', $e->getMessage());
        }
    }

    public function testASignalHandlerEndsAWait(): void
    {
        $server = stream_socket_server('tcp://127.0.0.1:0');
        $url = 'http://' . stream_socket_get_name($server, false);
        $code = <<<'PHP'
            pcntl_async_signals(true);
            pcntl_signal(SIGALRM, fn () => throw new DomainException('enough'));
            $chat = new Pillion\ToolAwareChat(new Pillion\ToolExecutor(new Pillion\ToolRegistry()), ['base_url' => 'URL', 'model' => 'x']);
            foreach (['send', 'stream'] as $method) {
                $started = microtime(true);
                try {
                    pcntl_alarm(1);
                    $said = $chat->$method('Hi');
                    $said->getReturn();
                } catch (DomainException $e) {
                    echo $e->getMessage(), microtime(true) - $started < 20 ? ' in time ' : ' late ';
                }
            }
            PHP;
        try {
            self::assertSame('enough in time enough in time ', Process::php(str_replace('URL', $url, $code))['output']);
        } finally {
            fclose($server);
        }
    }
}
