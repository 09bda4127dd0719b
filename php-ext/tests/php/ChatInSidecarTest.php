<?php

declare(strict_types=1);

namespace Pillion\Tests;

use Pillion\ChatAnswer;
use Pillion\ChatEvent;
use Pillion\ChatStream;
use Pillion\Exception\ApprovalRequiredException;
use Pillion\Exception\InvalidInputException;
use Pillion\Exception\NotFoundException;
use Pillion\Exception\PillionException;
use Pillion\Exception\RateLimitedException;
use Pillion\Exception\TransportException;
use Pillion\Exception\UnavailableException;
use Pillion\Sidecar;
use Pillion\Tests\Support\Expect;
use Pillion\Tests\Support\FakeLlm;
use Pillion\Tests\Support\OddPeer;
use Pillion\Tests\Support\SidecarProcess;
use Pillion\ToolAwareChat;
use PHPUnit\Framework\TestCase;

/** Chats with the loop in the real sidecar (H4 to H7). */
final class ChatInSidecarTest extends TestCase
{
    private static SidecarProcess $process;
    private Sidecar $sidecar;

    public static function setUpBeforeClass(): void
    {
        self::$process = new SidecarProcess([], FakeLlm::forSidecar() + ['PILLION__TOOLS__ROLL_DICE__REQUIRE_APPROVAL' => 'always']);
    }

    public static function tearDownAfterClass(): void
    {
        self::$process->stop();
    }

    protected function setUp(): void
    {
        $this->sidecar = new Sidecar(self::$process->socket);
    }

    public function testH7AMessageGetsAnAnswer(): void
    {
        $answer = (new ToolAwareChat($this->sidecar))->send('Good morning', context: ['user' => 'ada', 'channel' => 'c']);
        self::assertTrue($answer->success);
        self::assertSame(['You said: Good morning', 'answered', 'demo', 'stop'], [$answer->text, $answer->status, $answer->model, $answer->finishReason]);
        self::assertSame($answer->text, $answer->textOrThrow());
        self::assertSame([[], [], 1], [$answer->toolCalls, $answer->approvals, $answer->usage['requests']]);
        self::assertMatchesRegularExpression('/^[0-9a-f-]{36}$/', $answer->state);
    }

    public function testH5ToolsRunAndTheModelReceivesFailures(): void
    {
        $answer = (new ToolAwareChat($this->sidecar))->send("calculator {\"expression\": \"6 * 7\"}\ncalculator {\"expression\": \"1/0\"}");
        self::assertStringContainsString('42', $answer->text);
        self::assertStringContainsString('division by zero', $answer->text);
        $calls = $answer->toolCalls;
        usort($calls, fn (array $a, array $b) => $a['id'] <=> $b['id']);
        self::assertSame(['calculator', ['expression' => '6 * 7'], true, '42'], [$calls[0]['name'], $calls[0]['arguments'], $calls[0]['success'], $calls[0]['content']]);
        self::assertSame([false, 'invalid_input'], [$calls[1]['success'], $calls[1]['error_code']]);
    }

    public function testH6AStreamReportsEvents(): void
    {
        $stream = (new ToolAwareChat($this->sidecar))->stream('calculator {"expression": "6 * 7"}');
        self::assertInstanceOf(ChatStream::class, $stream);
        $types = $texts = [];
        foreach ($stream as $place => $event) {
            self::assertSame(count($types), $place);
            self::assertInstanceOf(ChatEvent::class, $event);
            $types[] = $event->type;
            $texts[$event->type] = ($texts[$event->type] ?? '') . $event->text;
            match ($event->type) {
                'tool_started' => self::assertSame(['calculator', ['expression' => '6 * 7']], [$event->data['name'], $event->data['arguments']]),
                'tool_finished' => self::assertSame([true, '42', null], [$event->data['success'], $event->data['content'], $event->data['error_code']]),
                default => null,
            };
        }
        self::assertSame(['usage', 'status', 'tool_started', 'tool_finished'], array_slice($types, 0, 4));
        self::assertSame('done', array_pop($types));
        self::assertNotContains('done', $types);
        self::assertSame(['Executing calculator...', 'The tools say: 42'], [$texts['status'], $texts['delta']]);
        self::assertSame($event->answer, $stream->getReturn());
        self::assertSame([$texts['delta'], $stream->getState()], [$event->answer->text, $event->answer->state]);
        self::assertFalse($stream->valid());
        self::assertNull($stream->current());
        $stream->next();
        self::assertFalse($stream->valid());
    }

    public function testAStreamRunsToItsEnd(): void
    {
        $stream = (new ToolAwareChat($this->sidecar))->stream('Hi');
        self::assertSame('You said: Hi', $stream->getReturn()->text);
        self::assertFalse($stream->valid());
        $this->expectExceptionMessage('A ChatStream cannot be rewound');
        $stream->next();
        $stream->rewind();
    }

    public function testAnotherObjectContinuesAChat(): void
    {
        $state = (new ToolAwareChat($this->sidecar))->send('One', context: ['user' => 'ada'])->state;
        $chat = new ToolAwareChat(new Sidecar(self::$process->socket));
        $answer = $chat->send([['role' => 'user', 'content' => 'Two']], $state, ['user' => 'ada']);
        self::assertSame(['You said: Two', $state, 2], [$answer->text, $answer->state, $answer->usage['requests']]);
        self::assertSame('You said: Two', $chat->stream(state: $state, context: ['user' => 'ada'])->getReturn()->text);
        Expect::exception(NotFoundException::class, fn () => $chat->send('Three', $state, ['user' => 'bob']));
    }

    public function testG3AChatContinuesAfterADecision(): void
    {
        $chat = new ToolAwareChat($this->sidecar);
        $context = ['user' => 'ann'];
        $types = [];
        foreach ($stream = $chat->stream("roll_dice {\"notation\": \"2d1\"}\ncalculator {\"expression\": \"1+1\"}", context: $context) as $event) {
            $types[] = $event->type;
            if ($event->type === 'tool_waiting') {
                self::assertSame(['roll_dice', ['notation' => '2d1']], [$event->data['tool'], $event->data['arguments']]);
            }
        }
        self::assertContains('tool_waiting', $types);
        $answer = $stream->getReturn();
        self::assertSame([false, 'awaiting_approval', null], [$answer->success, $answer->status, $answer->text]);
        [$approval] = $answer->approvals;
        $e = Expect::exception(ApprovalRequiredException::class, fn () => $answer->textOrThrow());
        self::assertSame([$approval['id'], 'roll_dice', ['notation' => '2d1']], [$e->approvalId, $e->toolName, $e->arguments]);
        self::assertSame('awaiting_approval', $chat->send(state: $answer->state, context: $context)->status);
        $e = Expect::exception(InvalidInputException::class, fn () => $chat->send('Hurry', $answer->state, $context));
        self::assertStringContainsString("waits for approval '{$approval['id']}' of tool 'roll_dice'", $e->getMessage());
        $this->sidecar->approve($approval['id']);
        $answer = $chat->send(state: $answer->state, context: $context);
        self::assertSame('answered', $answer->status);
        self::assertStringContainsString('**2**', $answer->text);
        self::assertStringContainsString('; 2', $answer->text);
        self::assertSame(['roll_dice'], array_column($answer->toolCalls, 'name'));
    }

    public function testG3TheModelReceivesADenial(): void
    {
        $chat = new ToolAwareChat($this->sidecar);
        $answer = $chat->send('roll_dice {"notation": "3d1"}');
        $this->sidecar->deny($answer->approvals[0]['id']);
        $answer = $chat->send(state: $answer->state);
        self::assertSame(['answered', 'denied'], [$answer->status, $answer->toolCalls[0]['error_code']]);
    }

    public function testAnAbandonedStreamEndsAndTheChatCanContinue(): void
    {
        $chat = new ToolAwareChat($this->sidecar);
        $stream = $chat->stream('One two three four five');
        foreach ($stream as $event) {
            if ($event->type === 'delta') {
                break;
            }
        }
        $state = $stream->getState();
        self::assertNotNull($state);
        unset($stream, $event);
        // The sidecar may not have noticed the disconnect yet.
        for ($tries = 0; $tries < 3000; $tries++) {
            try {
                self::assertSame('You said: One two three four five', $chat->send(state: $state)->text);
                return;
            } catch (PillionException $e) {
                self::assertStringStartsWith('Another request is continuing the chat', $e->getMessage());
                usleep(10_000);
            }
        }
        self::fail('Another request still holds the chat');
    }

    public function testH2TheModelSeesItsToolsOnly(): void
    {
        $few = new ToolAwareChat($this->sidecar, 'few', ['system' => 'Be brief', 'temperature' => 0.5, 'max_output_tokens' => 100, 'timeout' => 20]);
        $answer = $few->send("get_time {}\ncalculator {\"expression\": \"2+2\"}");
        self::assertSame(['calculator'], array_column($answer->toolCalls, 'name'));
        self::assertSame('few', $answer->model);
        $none = new ToolAwareChat($this->sidecar, options: ['enable_tools' => false]);
        self::assertSame('You said: calculator {"expression": "2+2"}', $none->send('calculator {"expression": "2+2"}')->text);
    }

    /** @return iterable<string, array{list<mixed>, class-string, string}> */
    public static function wrongThings(): iterable
    {
        yield 'a model that there is not' => [['nope', [], 'Hi'], NotFoundException::class, 'nope'];
        yield 'no message' => [[null, [], null], InvalidInputException::class, 'A new chat needs a $message'];
        yield 'a message that is none' => [[null, [], ['Hi']], InvalidInputException::class, '$message must be a string or a list of messages'];
        yield 'a chat that there is not' => [[null, [], 'Hi', 'nope'], NotFoundException::class, ''];
        yield 'an empty state' => [[null, [], 'Hi', ''], InvalidInputException::class, '$state must not be empty'];
        yield 'a model that is an array' => [[['model' => 'x']], InvalidInputException::class, '$model must be the name of a model of the sidecar'];
        yield 'an option that there is not' => [[null, ['sytem' => 'x']], InvalidInputException::class, "Invalid chat option 'sytem': unknown field `sytem`"];
        yield 'an option of another type' => [[null, ['system' => 1]], InvalidInputException::class, "Invalid chat option 'system': "];
        yield 'an option of the sidecar' => [[null, ['max_tool_rounds' => 1]], InvalidInputException::class, "Invalid chat option 'max_tool_rounds': set it in the sidecar's configuration"];
        yield 'a timeout that is none' => [[null, ['timeout' => -1]], InvalidInputException::class, 'timeout must be a number of seconds'];
        yield 'a timeout without end' => [[null, ['timeout' => PHP_INT_MAX]], InvalidInputException::class, 'timeout must be a number of seconds'];
        yield 'text that is no UTF-8' => [[null, [], "\xff"], InvalidInputException::class, 'Argument #1 is not valid UTF-8'];
    }

    /** @dataProvider wrongThings */
    public function testErrorsAreClear(array $given, string $class, string $message): void
    {
        foreach (['send', 'stream'] as $method) {
            [$model, $options] = $given + [1 => []];
            Expect::exception($class, fn () => (new ToolAwareChat($this->sidecar, $model, $options))->$method($given[2] ?? null, $given[3] ?? null), $message);
        }
    }

    public function testARefusedConnectionIsAnError(): void
    {
        $chat = new ToolAwareChat(new Sidecar('/nonexistent/pillion.sock'));
        foreach (['send', 'stream'] as $method) {
            $e = Expect::exception(UnavailableException::class, fn () => $chat->$method('Hi'), failure: "$method had an answer");
            self::assertStringContainsString('/nonexistent/pillion.sock', $e->getMessage());
        }
    }

    public function testH6AStreamThatBreaksOffIsAnError(): void
    {
        $peer = new OddPeer('half a chat');
        $stream = (new ToolAwareChat(new Sidecar($peer->socket)))->stream('Hi');
        try {
            $texts = '';
            foreach ($stream as $event) {
                $texts .= $event->text;
            }
            self::fail('It ended well');
        } catch (TransportException) {
            self::assertSame('Hi', $texts);
            self::assertSame('c1', $stream->getState());
            self::assertFalse($stream->valid());
        } finally {
            $peer->stop();
        }
        Expect::exception(\Error::class, fn () => $stream->getReturn());
    }

    public function testTextOrThrowThrowsTheErrorOfTheAnswer(): void
    {
        $answer = new ChatAnswer(status: 'failed', error: 'Too many', errorCode: 'rate_limited', retryAfter: 2.5);
        self::assertSame([false, null, '', []], [$answer->success, $answer->text, $answer->state, $answer->usage]);
        $e = Expect::exception(RateLimitedException::class, fn () => $answer->textOrThrow());
        self::assertSame(['Too many', 2.5], [$e->getMessage(), $e->retryAfter]);
        self::assertSame('Hi', (new ChatAnswer('Hi'))->textOrThrow());
        self::assertSame(['Hi', null], [(new ChatEvent('delta', ['text' => 'Hi']))->text, (new ChatEvent('delta'))->answer]);
    }
}
