<?php

namespace Pillion;

/**
 * A chat that is under way, with what happens as it comes. Tools in PHP, approvals and what MCP
 * servers ask wait until the stream is looked at. A stream that is dropped before its end cancels
 * what is under way.
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

    /** Cancels what is under way. */
    public function __destruct()
    {
    }

    /** The event; null at the end. */
    public function current(): ?ChatEvent
    {
    }

    /** How many events came before it. */
    public function key(): int
    {
    }

    /**
     * Waits for the next event, or for the end.
     *
     * @throws Exception\PillionException when the sidecar is lost. A failure of the model is an answer that says so
     */
    public function next(): void
    {
    }

    /** Waits for the first event. There is no way back, as in a generator. */
    public function rewind(): void
    {
    }

    public function valid(): bool
    {
    }

    /**
     * Runs the chat to its end; events that come meanwhile are dropped.
     *
     * @throws Exception\PillionException as {@see next()}
     */
    public function getReturn(): ChatAnswer
    {
    }

    /**
     * What it takes to go on, as far as the chat has come: for who leaves the stream before its
     * end. No call that has begun begins a second time. A run in this process that still goes on
     * ends with it; no tool that it waits for may ask.
     */
    public function getState(): ?string
    {
    }
}
