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
 * Chats with one model that uses tools, on behalf of one user: {@see ToolAwareChat} with the configuration,
 * the tools and the approvals of this application.
 */
final class Chat
{
    /**
     * The factory that creates the chat. The factory is hidden from dumps, because it references
     * the whole application.
     */
    private readonly SensitiveParameterValue $factory;

    /**
     * @param Closure(): (ToolAwareChat|FakeChat) $factory called for each message, because a test may set a fake
     *        between two messages
     */
    public function __construct(Closure $factory, private readonly ?string $user)
    {
        $this->factory = new SensitiveParameterValue($factory);
    }

    /**
     * Runs the chat until the model has answered, calls wait for approval, or a failure occurs. The status of
     * the answer shows the outcome.
     *
     * @param string|list<array<string, mixed>>|null $message the user's message, or messages in the format
     *        of OpenAI's chat completions; null resumes the chat after a decision or a failure
     * @param ?string $state the state of a previous answer; store it where users cannot change it
     * @param array{user?: string, channel?: string, denied?: list<string>, approval_wait?: int|float, ...} $context
     *        values for tools; `denied` denies waiting calls, by the IDs of their approvals
     *
     * @throws \Pillion\Exception\InvalidInputException when `$message` is not null while a call
     *         waits for an approval; the exception's message contains the ID of the approval
     * @throws \Pillion\Exception\PillionException as {@see ToolAwareChat::send()}
     */
    public function send(string|array|null $message = null, ?string $state = null, array $context = []): ChatAnswer
    {
        return ($this->factory->getValue())()->send($message, $state, $this->addUser($context));
    }

    /**
     * Runs the chat like {@see send()} and returns an iterator over its events. `getReturn()` of the iterator
     * returns the answer.
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
        return ($this->factory->getValue())()->stream($message, $state, $this->addUser($context));
    }

    public function __serialize(): array
    {
        throw new \LogicException('A chat cannot be serialized: store the state of its answer and resume it with Pillion::chat()');
    }

    /**
     * @param array<string, mixed> $context
     *
     * @return array<string, mixed>
     */
    private function addUser(array $context): array
    {
        return $context + ($this->user === null ? [] : ['user' => $this->user]);
    }
}
