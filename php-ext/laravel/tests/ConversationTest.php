<?php

declare(strict_types=1);

namespace Pillion\Laravel\Tests;

use PHPUnit\Framework\Attributes\DataProvider;
use Pillion\Laravel\Facades\Pillion;

final class ConversationTest extends TestCase
{
    private const MODEL = ['function_calling' => true, 'enabled_tools' => ['calculator']];

    /** @return array<string, mixed> a response that calls the calculator */
    private static function calling(string ...$ids): array
    {
        $calls = array_map(fn (string $id) => [
            'id' => $id,
            'type' => 'function',
            'function' => ['name' => 'calculator', 'arguments' => '{"expression":"6 * 7"}'],
        ], $ids);
        return ['choices' => [['message' => ['role' => 'assistant', 'content' => null, 'tool_calls' => $calls]]]];
    }

    /** @return array<string, mixed> */
    private static function saying(string $text): array
    {
        return ['choices' => [['message' => ['role' => 'assistant', 'content' => $text]]]];
    }

    public function test_h5_rounds_continue_until_there_is_an_answer(): void
    {
        $responses = [self::calling('a', 'b'), self::saying('It is 42.')];
        $offered = [];
        $tools = Pillion::forModel(self::MODEL);
        $conversation = $tools->conversation([['role' => 'user', 'content' => 'What is 6 * 7?']]);
        $conversation->run($tools, function (array $messages, array $tools) use (&$responses, &$offered): array {
            $offered[] = array_map(fn (array $tool) => $tool['function']['name'], $tools);
            return array_shift($responses);
        });

        self::assertSame('It is 42.', $conversation->text());
        self::assertSame(['user', 'assistant', 'tool', 'tool', 'assistant'], array_column($conversation->messages(), 'role'));
        self::assertSame('42', $conversation->messages()[3]['content']);
        self::assertSame([['calculator'], ['calculator']], $offered);
        self::assertSame(1, $conversation->rounds());
    }

    public function test_h4_after_the_last_round_the_request_has_no_tools(): void
    {
        $requests = [];
        $tools = Pillion::forModel(self::MODEL);
        $conversation = $tools->conversation([['role' => 'user', 'content' => 'Go on']]);
        $conversation->run($tools, function (array $messages, array $tools) use (&$requests): array {
            $requests[] = count($tools);
            return $tools === [] ? self::saying('Enough.') : self::calling('call_' . count($requests));
        });
        self::assertSame([1, 1, 1, 1, 1, 0], $requests);
        self::assertSame('Enough.', $conversation->text());
        self::assertCount(5, array_keys(array_column($conversation->messages(), 'role'), 'tool'));
    }

    public function test_h4_single_calls_count(): void
    {
        $requests = [];
        $tools = Pillion::forModel(self::MODEL);
        $conversation = $tools->conversation([['role' => 'user', 'content' => 'Go on']]);
        $send = function (array $messages, array $tools, ?array $choice) use (&$requests): array {
            $requests[] = [count($tools), $choice];
            $ids = [count($requests) . 'a', count($requests) . 'b'];
            return $tools === [] ? self::saying('Enough.') : self::calling(...$ids);
        };
        $conversation->run($tools, $send);
        self::assertSame([[1, null], [1, null], [1, null], [0, null]], $requests);
        self::assertSame(['Enough.', 3], [$conversation->text(), $conversation->rounds()]);
        self::assertCount(6, array_keys(array_column($conversation->messages(), 'role'), 'tool'), 'the last batch runs');
        $conversation->addMessage(['role' => 'user', 'content' => 'And on'])->run($tools, $send);
        self::assertCount(8, $requests, 'a new message resets the count');
    }

    public function test_h4_the_limits_are_configurable(): void
    {
        foreach ([['limits.max_calls' => 2], ['limits.max_rounds' => 2]] as $limit) {
            $this->configure($limit);
            $requests = 0;
            $tools = Pillion::forModel(self::MODEL);
            $tools->conversation([['role' => 'user', 'content' => 'Go on']])->run($tools, function (array $messages, array $tools) use (&$requests): array {
                $requests++;
                return $tools === [] ? self::saying('Enough.') : self::calling("c$requests");
            });
            self::assertSame(3, $requests);
            $this->configure(['limits.max_calls' => 5]);
        }
    }

    public function test_h4_the_last_request_to_anthropic_has_tools_and_forbids_calls(): void
    {
        $requests = [];
        $tools = Pillion::forModel(['provider' => 'anthropic'] + self::MODEL);
        $conversation = $tools->conversation([['role' => 'user', 'content' => 'Go on']]);
        $conversation->run($tools, function (array $messages, array $tools, ?array $choice) use (&$requests): array {
            $requests[] = [array_column($tools, 'name'), $choice];
            $call = ['type' => 'tool_use', 'id' => 'c' . count($requests), 'name' => 'calculator', 'input' => ['expression' => '6 * 7']];
            return ['role' => 'assistant', 'stop_reason' => 'tool_use', 'content' => [['type' => 'text', 'text' => 'Well.'], $call]];
        });
        self::assertCount(6, $requests);
        self::assertSame([['calculator'], null], $requests[4]);
        self::assertSame([['calculator'], ['type' => 'none']], $requests[5]);
        self::assertSame(['Well.', 5], [$conversation->text(), $conversation->rounds()]);
        $last = array_slice($conversation->messages(), -2);
        self::assertSame(['assistant', 'user'], array_column($last, 'role'));
        self::assertSame(['tool_result', 'c6', true], [$last[1]['content'][0]['type'], $last[1]['content'][0]['tool_use_id'], $last[1]['content'][0]['is_error']]);
    }

    public function test_h4_the_calls_of_one_answer_have_a_limit(): void
    {
        $ids = array_map(fn (int $i) => "c$i", range(1, 40));
        $responses = [self::calling(...$ids), self::saying('Enough.')];
        $tools = Pillion::forModel(self::MODEL);
        $conversation = $tools->conversation([['role' => 'user', 'content' => 'Go on']]);
        $conversation->run($tools, function () use (&$responses): array {
            return array_shift($responses);
        });
        $reported = array_slice($conversation->messages(), 2, 40);
        self::assertSame($ids, array_column($reported, 'tool_call_id'));
        $ran = array_filter($reported, fn (array $message) => $message['content'] === '42');
        self::assertCount(32, $ran);
        self::assertStringContainsString('Not run: a response may have at most 32 tool calls', $reported[32]['content']);
        self::assertCount(40, $conversation->finishedCalls());
    }

    /** @dataProvider endings */
    #[DataProvider('endings')]
    public function test_h5_calls_of_a_truncated_answer_do_not_run(string $provider, string $reason, int $whole): void
    {
        $arguments = ['expression' => '6 * 7'];
        $two = fn (\Closure $call) => array_map($call, ['a', 'b']);
        [$answer, $last] = match ($provider) {
            'openai' => [['choices' => [self::calling('a', 'b')['choices'][0] + ['finish_reason' => $reason]]], self::saying('Well.')],
            'openai-responses' => [
                ['status' => 'incomplete', 'incomplete_details' => ['reason' => $reason], 'output' => $two(
                    fn (string $id) => ['type' => 'function_call', 'call_id' => $id, 'name' => 'calculator', 'arguments' => json_encode($arguments)],
                )],
                ['status' => 'completed', 'incomplete_details' => null, 'output' => []],
            ],
            'anthropic' => [
                ['stop_reason' => $reason, 'content' => $two(
                    fn (string $id) => ['type' => 'tool_use', 'id' => $id, 'name' => 'calculator', 'input' => $arguments],
                )],
                ['stop_reason' => 'end_turn', 'content' => []],
            ],
            'google' => [
                ['candidates' => [['finishReason' => $reason, 'content' => ['parts' => $two(
                    fn (string $id) => ['functionCall' => ['id' => $id, 'name' => 'calculator', 'args' => $arguments]],
                )]]]],
                ['candidates' => [['finishReason' => 'STOP']]],
            ],
        };
        $responses = [$answer, $last];
        $tools = Pillion::forModel(['provider' => $provider] + self::MODEL);
        $conversation = $tools->conversation([['role' => 'user', 'content' => 'Go on']]);
        $conversation->run($tools, function () use (&$responses): array {
            return array_shift($responses);
        });
        $ran = array_column($conversation->finishedCalls(), 1);
        usort($ran, fn ($one, $other) => $one->toolCallId <=> $other->toolCallId);
        self::assertSame(['a', 'b'], array_column($ran, 'toolCallId'));
        self::assertSame([$whole > 0, $whole > 1], array_column($ran, 'success'));
        foreach (array_slice($ran, $whole) as $result) {
            self::assertSame('Not run: the response was cut off before the call was complete', $result->error);
        }
        self::assertSame([], $responses, 'the model receives the failure and another request');
    }

    /** @return iterable<string, array{string, string, int}> */
    public static function endings(): iterable
    {
        foreach ([
            'openai' => ['length' => 1, 'model_length' => 1, 'content_filter' => 0, 'tool_calls' => 2, 'stop' => 2],
            'openai-responses' => ['max_output_tokens' => 1, 'content_filter' => 0],
            'anthropic' => ['max_tokens' => 1, 'model_context_window_exceeded' => 1, 'refusal' => 0, 'tool_use' => 2],
            'google' => ['MAX_TOKENS' => 1, 'SAFETY' => 0, 'IMAGE_RECITATION' => 0, 'STOP' => 2],
        ] as $provider => $reasons) {
            foreach ($reasons as $reason => $whole) {
                yield "$provider: $reason" => [$provider, $reason, $whole];
            }
        }
    }

    public function test_it_can_be_serialized_and_continued(): void
    {
        $tools = Pillion::forModel(self::MODEL);
        $conversation = $tools->conversation([['role' => 'user', 'content' => 'Hello']]);
        $conversation->run($tools, fn () => self::saying('Hello.'));
        $again = unserialize(serialize($conversation))->addMessage(['role' => 'user', 'content' => 'And?']);
        self::assertNull($again->text());
        self::assertSame('Well.', $again->run($tools, fn () => self::saying('Well.'))->text());
        self::assertCount(4, $again->messages());
    }

    public function test_results_are_serialized_once(): void
    {
        $tools = Pillion::forModel(self::MODEL);
        $responses = [self::calling('a'), self::saying('It is 42.')];
        $conversation = $tools->conversation([['role' => 'user', 'content' => 'What is 6 * 7?']]);
        $conversation->run($tools, function () use (&$responses): array {
            return array_shift($responses);
        });
        self::assertCount(1, $conversation->finishedCalls());
        $text = serialize($conversation);
        self::assertSame(1, substr_count($text, '6 * 7"}'));
        $again = unserialize($text);
        self::assertSame([], $again->finishedCalls());
        self::assertSame([$conversation->messages(), 'It is 42.', 1], [$again->messages(), $again->text(), $again->rounds()]);
    }

    public function test_h1_each_provider_has_its_own_messages(): void
    {
        $cases = [
            'anthropic' => [['role' => 'assistant', 'stop_reason' => 'end_turn', 'content' => [['type' => 'text', 'text' => 'Hello.']]], 'assistant'],
            'google' => [['candidates' => [['content' => ['role' => 'model', 'parts' => [['text' => 'Hello.']]]]]], 'model'],
        ];
        foreach ($cases as $provider => [$response, $role]) {
            $tools = Pillion::forModel(['provider' => $provider] + self::MODEL);
            $conversation = $tools->conversation([['role' => 'user', 'content' => 'Hello']])->run($tools, fn () => $response);
            self::assertSame('Hello.', $conversation->text());
            self::assertSame($role, $conversation->messages()[1]['role'], $provider);
        }
    }

    public function test_h4_calls_after_the_last_round_do_not_run(): void
    {
        $tools = Pillion::forModel(self::MODEL);
        $conversation = $tools->conversation([['role' => 'user', 'content' => 'Go on']]);
        $conversation->run($tools, fn () => self::calling('again'));
        self::assertSame('', $conversation->text());
        self::assertSame(5, $conversation->rounds());
        $messages = $conversation->messages();
        self::assertSame(['tool', 'again'], [end($messages)['role'], end($messages)['tool_call_id']], 'every call has a result');
        self::assertStringContainsString('Not run: no more tool calls are allowed', end($messages)['content']);
    }

    public function test_calls_do_not_run_again_when_the_model_fails(): void
    {
        Pillion::fake(['calculator' => 42]);
        $tools = Pillion::forModel(self::MODEL);
        $conversation = $tools->conversation([['role' => 'user', 'content' => 'What is 6 * 7?']]);
        $responses = [self::calling('a')];
        try {
            $conversation->run($tools, function () use (&$responses): array {
                return array_shift($responses) ?? throw new \RuntimeException('The model is away');
            });
            self::fail('The model answered');
        } catch (\RuntimeException) {
        }
        $again = unserialize(serialize($conversation));
        self::assertFalse($again->isWaiting());
        self::assertSame('It is 42.', $again->run($tools, fn () => self::saying('It is 42.'))->text());
        Pillion::assertToolCalled('calculator', 1);
    }

    public function test_g3_pending_calls_can_be_abandoned(): void
    {
        Pillion::fake(['calculator' => 42]);
        $this->configure(['approvals.tools' => ['calculator' => 'always-ask']]);
        $tools = Pillion::forModel(['function_calling' => true]);
        $response = self::calling('a', 'b');
        $response['choices'][0]['message']['tool_calls'][1]['function'] = ['name' => 'get_time', 'arguments' => '{}'];
        $conversation = $tools->conversation([['role' => 'user', 'content' => 'What is 6 * 7?']])
            ->run($tools, fn () => $response);
        self::assertTrue($conversation->isWaiting());

        self::assertFalse($conversation->abandon()->isWaiting());
        self::assertSame([], $conversation->waitingFor());
        $messages = $conversation->messages();
        self::assertSame(['user', 'assistant', 'tool', 'tool'], array_column($messages, 'role'));
        self::assertSame(['a', 'b'], array_column(array_slice($messages, 2), 'tool_call_id'));
        self::assertStringContainsString('was denied', $messages[2]['content']);
        self::assertStringNotContainsString('denied', $messages[3]['content'], 'what ran stays');
        self::assertSame('As you like.', $conversation->run($tools, fn () => self::saying('As you like.'))->text());
        self::assertCount(5, $conversation->abandon()->messages(), 'nothing waits');
        Pillion::assertToolNotCalled('calculator');
    }
}
