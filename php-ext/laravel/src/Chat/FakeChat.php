<?php

declare(strict_types=1);

namespace Pillion\Laravel\Chat;

use Generator;
use Pillion\ChatAnswer;
use Pillion\ChatEvent;
use Pillion\Exception\InvalidInputException;
use Pillion\Laravel\Models\ModelTools;
use Pillion\Laravel\Testing\PillionFake;
use Pillion\ToolCall;
use Pillion\ToolResult;
use Throwable;

/**
 * A chat with a fake model, whose responses a test defines. The chat uses the application's tools,
 * approvals and limits.
 *
 * @internal
 */
final class FakeChat
{
    public function __construct(
        private readonly PillionFake $fake,
        private readonly ModelTools $tools,
        private readonly string $model,
        private readonly int $maxRounds,
        private readonly int $maxCalls,
    ) {
    }

    /**
     * @param string|list<array<string, mixed>>|null $message
     * @param array<string, mixed>                   $context
     */
    public function send(string|array|null $message, ?string $state, array $context): ChatAnswer
    {
        $messages = is_string($message) ? [['role' => 'user', 'content' => $message]] : $message ?? [];
        if ($messages === [] && $state === null) {
            throw new InvalidInputException('A new chat needs a $message; null continues the chat of $state');
        }
        $conversation = $state === null ? $this->tools->conversation($messages, 'openai') : unserialize(base64_decode($state));
        assert($conversation instanceof Conversation);
        $conversation->setLimits($this->maxRounds, $this->maxCalls);
        if ($state !== null && $messages !== [] && $conversation->isWaiting()) {
            // The exception has the same message as the exception of `ToolAwareChat`.
            throw new InvalidInputException("the chat waits for {$conversation->openCalls()}: continue the chat without a message after the decision");
        }
        foreach ($state === null ? [] : $messages as $nextMessage) {
            $conversation->addMessage($nextMessage);
        }
        $failure = null;
        $sendRequest = function () use (&$failure): array {
            $response = $this->fake->nextModelAnswer();
            return is_array($response) ? $response : throw $failure = $response;
        };
        try {
            $conversation->run($this->tools, $sendRequest, $context);
        } catch (Throwable $exception) {
            // An exception that the test defined in place of a response simulates a failure of the
            // provider: the chat fails. Any other exception is thrown to the caller.
            if ($exception !== $failure) {
                throw $exception;
            }
        }
        $waitingCalls = $conversation->waitingFor();
        return new ChatAnswer(
            text: $failure === null ? $conversation->text() : null,
            status: match (true) {
                $failure !== null => 'failed',
                $waitingCalls !== [] => 'awaiting_approval',
                default => 'answered',
            },
            state: base64_encode(serialize($conversation)),
            model: $this->model,
            finishReason: $failure === null && $waitingCalls === [] ? 'stop' : null,
            limitReached: $failure === null ? $conversation->limitReached() : null,
            toolCalls: array_map(self::describeCall(...), $conversation->finishedCalls()),
            approvals: array_map(self::describeApproval(...), array_keys($waitingCalls), $waitingCalls),
            error: $failure?->getMessage(),
            errorCode: $failure === null ? null : $failure->errorCode ?? 'unavailable',
        );
    }

    /**
     * @param string|list<array<string, mixed>>|null $message
     * @param array<string, mixed>                   $context
     *
     * @return Generator<int, ChatEvent, mixed, ChatAnswer>
     */
    public function stream(string|array|null $message, ?string $state, array $context): Generator
    {
        $answer = $this->send($message, $state, $context);
        foreach ($answer->toolCalls as $call) {
            yield new ChatEvent('tool_started', array_intersect_key($call, ['id' => 0, 'name' => 0, 'arguments' => 0]));
            yield new ChatEvent('tool_finished', array_diff_key($call, ['arguments' => 0]) + ['error_code' => null]);
        }
        foreach ($answer->approvals as $approval) {
            yield new ChatEvent('tool_waiting', $approval);
        }
        if ($answer->text !== null) {
            yield new ChatEvent('delta', ['text' => $answer->text]);
        }
        yield new ChatEvent('done', [], $answer);
        return $answer;
    }

    /**
     * @param array{ToolCall, ToolResult} $finishedCall
     *
     * @return array<string, mixed>
     */
    private static function describeCall(array $finishedCall): array
    {
        [$call, $result] = $finishedCall;
        return [
            'id' => $call->id,
            'name' => $call->name,
            'arguments' => self::decodeArguments($call),
            'success' => $result->success,
            'content' => $result->success ? $result->text() : $result->toMessage(),
        ] + ($result->errorCode === null ? [] : ['error_code' => $result->errorCode]);
    }

    /** @return array<string, mixed> */
    private static function describeApproval(string $id, ToolCall $call): array
    {
        return ['id' => $id, 'call' => $call->id, 'tool' => $call->name, 'arguments' => self::decodeArguments($call)];
    }

    /** @return array<array-key, mixed>|string a string if the arguments are not a JSON object or list */
    private static function decodeArguments(ToolCall $call): array|string
    {
        $decodedArguments = is_string($call->arguments) ? json_decode($call->arguments, true) : null;
        return is_array($decodedArguments) ? $decodedArguments : $call->arguments;
    }
}
