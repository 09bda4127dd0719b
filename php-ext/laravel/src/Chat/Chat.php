<?php

declare(strict_types=1);

namespace Pillion\Laravel\Chat;

use Closure;
use Generator;
use Iterator;
use Pillion\ChatAnswer;
use Pillion\ChatEvent;
use Pillion\ChatStream;
use Pillion\ToolAwareChat;
use SensitiveParameterValue;

/**
 * Chats with one model that uses tools, on behalf of one user: {@see ToolAwareChat} with the
 * configuration, the tools and the approvals of this application.
 */
final class Chat
{
    /** It leads to the whole application, which no dump must show. */
    private readonly SensitiveParameterValue $chat;

    /** @param Closure(): (ToolAwareChat|FakeChat) $chat made for each message: a test may fake meanwhile */
    public function __construct(Closure $chat, private readonly ?string $user)
    {
        $this->chat = new SensitiveParameterValue($chat);
    }

    /**
     * Goes on until the model has answered, calls wait for an approval, or something fails: the
     * answer says which.
     *
     * @param string|list<array<string, mixed>>|null $message what the user says, or messages in the shapes
     *        of OpenAI's chat completions; null goes on where the chat was, after a decision or a failure
     * @param ?string $state that of a former answer: keep it where users cannot change it
     * @param array{user?: string, channel?: string, denied?: list<string>, approval_wait?: int|float, ...} $context
     *        what tools should know; `denied` gives up calls that wait, by the ids of their approvals
     *
     * @throws \Pillion\Exception\PillionException as {@see ToolAwareChat::send()}
     */
    public function send(string|array|null $message = null, ?string $state = null, array $context = []): ChatAnswer
    {
        return ($this->chat->getValue())()->send($message, $state, $this->context($context));
    }

    /**
     * As {@see send()}, with what happens as it comes. `getReturn()` of the iterator is the answer.
     *
     * @param string|list<array<string, mixed>>|null $message
     * @param array{user?: string, channel?: string, denied?: list<string>, approval_wait?: int|float, ...} $context
     *
     * @return ChatStream|Generator<int, ChatEvent, mixed, ChatAnswer>
     *
     * @throws \Pillion\Exception\PillionException as {@see ToolAwareChat::stream()}
     */
    public function stream(string|array|null $message = null, ?string $state = null, array $context = []): Iterator
    {
        return ($this->chat->getValue())()->stream($message, $state, $this->context($context));
    }

    public function __serialize(): array
    {
        throw new \LogicException('A chat is not serialised: keep the state of its answer, and make another with Pillion::chat()');
    }

    /**
     * @param array<string, mixed> $context
     *
     * @return array<string, mixed>
     */
    private function context(array $context): array
    {
        return $context + ($this->user === null ? [] : ['user' => $this->user]);
    }
}
