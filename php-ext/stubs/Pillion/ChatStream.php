<?php

namespace Pillion;

/**
 * A running chat whose events arrive as they happen. PHP tools, approvals and requests from MCP servers wait
 * until the caller reads the stream. Destroying an unfinished stream cancels the chat run.
 *
 * @implements \Iterator<int, ChatEvent>
 */
final class ChatStream implements \Iterator
{
    private ?ToolAwareChat $chat = null;
    private ?ChatEvent $current = null;
    private ?ChatAnswer $answer = null;

    private function __construct()
    {
    }

    /** Cancels the chat run if it has not finished. */
    public function __destruct()
    {
    }

    /** Returns the current event; null at the end. */
    public function current(): ?ChatEvent
    {
    }

    /** Returns the number of events before the current event. */
    public function key(): int
    {
    }

    /**
     * Waits for the next event or for the end of the chat.
     *
     * @throws Exception\PillionException when the connection to the sidecar is lost; a failure of the model ends in a failed {@see ChatAnswer}
     */
    public function next(): void
    {
    }

    /** Waits for the first event. Like a generator, a started stream cannot be rewound. */
    public function rewind(): void
    {
    }

    public function valid(): bool
    {
    }

    /**
     * Runs the chat to its end and returns the answer. Events that arrive in the meantime are discarded.
     *
     * @throws Exception\PillionException as {@see next()}
     */
    public function getReturn(): ChatAnswer
    {
    }

    /**
     * Returns the state that resumes the chat from the current point, for callers that leave the stream
     * early. Calls that have started do not start again. If the chat runs in this process, `getState()` ends
     * the run; a tool of the chat cannot call `getState()`.
     */
    public function getState(): ?string
    {
    }
}
