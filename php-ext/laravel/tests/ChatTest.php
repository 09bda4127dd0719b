<?php

declare(strict_types=1);

namespace Pillion\Laravel\Tests;

use Pillion\ChatAnswer;
use Pillion\Exception\InvalidInputException;
use Pillion\Exception\UnavailableException;
use Pillion\Laravel\Chat\Chat;
use Pillion\Laravel\Facades\Pillion;
use Pillion\Laravel\Testing\StrayToolCallException;
use Pillion\Laravel\Tests\Support\Sidecar;
use Pillion\Tests\Support\Expect;
use Pillion\Tests\Support\FakeLlm;

/** `Pillion::chat()`, with an obedient model or with faked answers. */
final class ChatTest extends TestCase
{
    private function withModel(): void
    {
        $this->needsTheExtension();
        if (!getenv('PILLION') && !getenv('PILLION_FAKE_LLM')) {
            self::markTestSkipped('There is no fake model: use php-ext/laravel/run-tests');
        }
        $this->configure(['models' => [
            'demo' => ['base_url' => FakeLlm::url(), 'api_key' => 's3cret', 'function_calling' => true, 'mcp' => true],
        ]]);
    }

    public function test_h7_a_configured_model_answers(): void
    {
        $this->withModel();
        $answer = Pillion::chat('demo')->send('calculator {"expression": "6 * 7"}');
        self::assertSame(['The tools say: 42', 'demo'], [$answer->text, $answer->model]);
        $this->configure(['chat.model' => 'demo']);
        self::assertSame('You said: Hi', Pillion::chat()->send('Hi', $answer->state)->text);
        self::assertStringNotContainsString('s3cret', print_r(Pillion::chat(), true));
    }

    public function test_h6_it_is_streamed(): void
    {
        $this->withModel();
        $texts = [];
        foreach ($stream = Pillion::chat('demo')->stream('calculator {"expression": "6 * 7"}') as $event) {
            $texts[$event->type] = ($texts[$event->type] ?? '') . $event->text;
        }
        self::assertSame(['Executing calculator...', 'The tools say: 42'], [$texts['status'], $texts['delta']]);
        self::assertTrue($stream->getReturn()->success);
    }

    public function test_g3_it_continues_after_an_approval_in_the_application(): void
    {
        $this->withModel();
        $this->configure(['approvals.tools' => ['calculator' => 'always-ask']]);
        Pillion::fake(['calculator' => 41]);
        $message = "calculator {\"expression\": \"6 * 7\"}\nget_time {\"format\": \"timestamp\"}";
        $chat = fn () => Pillion::forUser('ann')->chat('demo');
        Pillion::fake(['get_time' => 'noon']);
        // Only tools are faked, and stray calls are allowed, so the model is called.
        $waiting = $chat()->send($message);
        self::assertSame('awaiting_approval', $waiting->status);
        $pending = Pillion::approvals()->pendingFor('ann');
        self::assertSame([$waiting->approvals[0]['id']], array_map(fn ($approval) => $approval->id, $pending));
        self::assertSame('awaiting_approval', $chat()->send(state: $waiting->state)->status);
        self::assertAcceptsNoMessage($chat(), $waiting, 'calculator');
        Pillion::approvals()->approve($waiting->approvals[0]['id']);
        self::assertSame('The tools say: 41; noon', $chat()->send(state: $waiting->state)->text);
        Pillion::assertToolCalledTimes('*', 2);
    }

    public function test_it_runs_in_the_sidecar(): void
    {
        $this->needsASidecar();
        $this->configure(['chat.in' => 'sidecar', 'sidecar.socket' => Sidecar::socket(), 'chat.options' => ['timeout' => '30']]);
        $answer = Pillion::forUser('ann')->chat('demo')->send('calculator {"expression": "6 * 7"}');
        self::assertSame('The tools say: 42', $answer->text);
        self::assertSame('You said: Hi', Pillion::forUser('ann')->chat()->send('Hi', $answer->state)->text);
        Pillion::fake()->preventStrayCalls();
        Expect::exception(StrayToolCallException::class, fn () => Pillion::chat()->send('Hi'));
    }

    public function test_a_test_fakes_the_answers_of_the_model(): void
    {
        $this->configure(['models' => ['demo' => ['provider' => 'openai', 'api_key' => 'x', 'function_calling' => true]], 'approvals.tools' => ['get_time' => 'always-ask']]);
        Pillion::fake(['calculator' => 42, 'get_time' => 'noon'])->preventStrayCalls()
            ->fakeModel(['calculator' => ['expression' => '6 * 7']], 'It is 42.', ['get_time' => []], 'Noon.', new \RuntimeException('down'), 'Up again.');
        $chat = Pillion::forUser('ann')->chat('demo');
        $answer = $chat->send('What is 6 * 7?');
        self::assertSame(['It is 42.', ['calculator'], ['42']], [$answer->text, array_column($answer->toolCalls, 'name'), array_column($answer->toolCalls, 'content')]);
        Pillion::assertToolCalled('calculator', ['expression' => '6 * 7']);

        $waiting = $chat->send('How late is it?', $answer->state);
        self::assertSame(['awaiting_approval', 'get_time'], [$waiting->status, $waiting->approvals[0]['tool']]);
        Pillion::approvals()->approve($waiting->approvals[0]['id']);
        $events = iterator_to_array($stream = $chat->stream(state: $waiting->state));
        self::assertSame(['tool_started', 'tool_finished', 'delta', 'done'], array_map(fn ($event) => $event->type, $events));
        self::assertSame('Noon.', $stream->getReturn()->text);

        $failed = $chat->send('And now?', $stream->getReturn()->state);
        self::assertSame(['failed', 'down'], [$failed->status, $failed->error]);
        self::assertSame('Up again.', $chat->send(state: $failed->state)->text);
        Expect::exception(\OutOfBoundsException::class, fn () => $chat->send('One more'));
    }

    public function test_a_message_is_an_error_that_names_the_approval_while_a_call_waits(): void
    {
        $this->configure(['models' => ['demo' => ['provider' => 'openai', 'function_calling' => true]], 'approvals.tools' => ['get_time' => 'always-ask']]);
        Pillion::fake(['get_time' => 'noon'])->preventStrayCalls()->fakeModel(['get_time' => []], 'Noon.', 'You are welcome.');
        $chat = Pillion::chat('demo');
        $waiting = $chat->send('How late is it?');
        self::assertAcceptsNoMessage($chat, $waiting, 'get_time');
        Pillion::approvals()->approve($waiting->approvals[0]['id']);
        // The call has not run yet.
        self::assertAcceptsNoMessage($chat, $waiting, 'get_time');
        $answer = $chat->send(state: $waiting->state);
        self::assertSame('Noon.', $answer->text);
        self::assertSame('You are welcome.', $chat->send('Thank you', $answer->state)->text);
    }

    private static function assertAcceptsNoMessage(Chat $chat, ChatAnswer $waiting, string $tool): void
    {
        $ways = [
            'send' => fn () => $chat->send('Hurry', $waiting->state),
            'messages' => fn () => $chat->send([['role' => 'user', 'content' => 'Hurry']], $waiting->state),
            'stream' => fn () => iterator_to_array($chat->stream('Hurry', $waiting->state), false),
        ];
        foreach ($ways as $way => $send) {
            $e = Expect::exception(InvalidInputException::class, $send(...), failure: "$way() accepted a message");
            $id = $waiting->approvals[0]['id'];
            self::assertSame("the chat waits for approval '$id' of tool '$tool': continue the chat without a message after the decision", $e->getMessage(), $way);
        }
    }

    public function test_h4_the_limit_on_rounds_applies_to_faked_answers(): void
    {
        $this->configure(['models' => ['demo' => ['provider' => 'openai', 'function_calling' => true]], 'limits.max_rounds' => 2]);
        Pillion::fake(['get_time' => 'noon', 'calculator' => 42])->preventStrayCalls()->fakeModel(['get_time' => []], ['calculator' => ['expression' => 5]], 'Noon.');
        $answer = Pillion::chat('demo')->send('How late is it?');
        self::assertSame(['Noon.', 'tool_rounds'], [$answer->text, $answer->limitReached]);
        self::assertSame([[], ['expression' => 5]], array_column($answer->toolCalls, 'arguments'));
    }

    public function test_h4_the_options_of_a_chat_apply_to_faked_answers(): void
    {
        $this->configure(['models' => ['demo' => ['provider' => 'openai', 'function_calling' => true]], 'chat.options' => ['max_tool_rounds' => '1']]);
        $call = ['get_time' => []];
        Pillion::fake(['get_time' => 'noon'])->preventStrayCalls()->fakeModel($call, 'Noon.', $call, $call, 'Two.', $call, 'Three.');
        $send = fn (string $message, ?string $state, array $options = []) => Pillion::chat('demo', $options)->send($message, $state);
        $first = $send('How late is it?', null);
        self::assertSame(['Noon.', 'tool_rounds'], [$first->text, $first->limitReached]);
        $second = $send('And now?', $first->state, ['max_tool_rounds' => 2]);
        self::assertSame(['Two.', 'tool_rounds'], [$second->text, $second->limitReached]);
        $third = $send('And now?', $second->state, ['max_tool_rounds' => 3, 'max_tool_calls' => 1]);
        self::assertSame(['Three.', 'tool_calls'], [$third->text, $third->limitReached]);
    }

    public function test_without_the_extension_the_error_names_the_setting_of_laravel(): void
    {
        $this->configure(['models' => ['demo' => ['base_url' => 'http://127.0.0.1:9/v1', 'function_calling' => true]]]);
        $ways = [
            fn () => Pillion::chat('demo')->send('Hi'),
            fn () => Pillion::chat('demo')->stream('Hi'),
            fn () => Pillion::forUser('ann')->chat(['id' => 'own', 'base_url' => 'http://127.0.0.1:9/v1'])->send('Hi'),
        ];
        foreach ($ways as $way) {
            try {
                $chat = $way();
                self::assertTrue(extension_loaded('pillion'));
                self::assertNotNull($chat);
            } catch (UnavailableException $e) {
                self::assertStringContainsString('PILLION_CHAT_IN=sidecar', $e->getMessage());
                self::assertStringContainsString("'chat' => ['in' => 'sidecar']", $e->getMessage());
                self::assertSame('unavailable', $e->errorCode);
            }
        }
    }

    public function test_without_faked_answers_no_model_is_called(): void
    {
        $this->configure(['models' => ['demo' => ['provider' => 'openai', 'function_calling' => true]]]);
        Pillion::fake()->preventStrayCalls();
        Expect::exception(StrayToolCallException::class, fn () => Pillion::chat('demo')->send('Hi'), 'a language model');
    }

    public function test_an_unknown_model_is_an_error(): void
    {
        foreach ([fn () => Pillion::chat(), fn () => Pillion::chat('nope')] as $chat) {
            Expect::exception(InvalidInputException::class, $chat(...), 'model');
        }
        $this->configure(['chat.in' => 'somewhere']);
        $this->expectExceptionMessage('pillion.chat.in must be process or sidecar');
        Pillion::chat('demo');
    }
}
