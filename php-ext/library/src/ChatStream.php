<?php

declare(strict_types=1);

namespace Pillion;

use Pillion\Fallback\Chat\ChatResponse;
use Pillion\Fallback\Failure;
use Pillion\Fallback\Http\EventSource;
use Pillion\Fallback\Json;

/**
 * A running chat whose events arrive as they happen. If the chat runs in this process, PHP tools, approvals and
 * requests from MCP servers wait until the caller reads the stream. Destroying an unfinished stream cancels the chat
 * run.
 *
 * @implements \Iterator<int, ChatEvent>
 */
final class ChatStream implements \Iterator
{
    private ?ChatEvent $currentEvent = null;
    private ?ChatAnswer $answer = null;
    private ?int $position = null;
    private readonly int $processId;

    private function __construct(private ?EventSource $events, private ?string $state)
    {
        $this->processId = (int) getmypid();
    }

    /** Cancels the chat run if it has not finished. */
    public function __destruct()
    {
        if ($this->processId === getmypid()) {
            $this->close();
        }
    }

    /** Returns the current event; null at the end. */
    public function current(): ?ChatEvent
    {
        $this->advanceToFirstEvent();
        return $this->currentEvent;
    }

    /** Returns the number of events before the current event. */
    public function key(): int
    {
        $this->advanceToFirstEvent();
        return (int) $this->position;
    }

    /**
     * Waits for the next event or for the end of the chat.
     *
     * @throws Exception\PillionException when the connection to the sidecar is lost; a failure of the model ends in a failed {@see ChatAnswer}
     */
    public function next(): void
    {
        $this->advanceToFirstEvent();
        $this->advance();
    }

    /** Waits for the first event. Like a generator, a started stream cannot be rewound. */
    public function rewind(): void
    {
        if ($this->position > 0) {
            throw new \Error('A ChatStream cannot be rewound');
        }
        $this->advanceToFirstEvent();
    }

    public function valid(): bool
    {
        $this->advanceToFirstEvent();
        return $this->currentEvent !== null;
    }

    /**
     * Runs the chat to its end and returns the answer. Events that arrive in the meantime are discarded.
     *
     * @throws Exception\PillionException as {@see next()}
     */
    public function getReturn(): ChatAnswer
    {
        while ($this->answer === null) {
            if ($this->events === null) {
                throw new \Error('The chat has ended without an answer');
            }
            $this->advance();
        }
        $this->currentEvent = null;
        return $this->answer;
    }

    /**
     * Returns the state from which a later request can resume the chat at the current point, for
     * callers that stop reading the stream early. Calls that have started do not start again.
     * Returns null if the sidecar has not sent the ID of the chat yet.
     *
     * If the chat runs in this process, `getState()` ends the run, and a tool of the chat cannot
     * call `getState()`.
     */
    public function getState(): ?string
    {
        return $this->state;
    }

    private function advanceToFirstEvent(): void
    {
        if ($this->position === null) {
            $this->advance();
        }
    }

    /** Waits for the next event or for the end of the chat. */
    private function advance(): void
    {
        $this->currentEvent = null;
        $this->position = $this->position === null ? 0 : $this->position + 1;
        if ($this->events === null) {
            return;
        }
        if ($this->processId !== getmypid()) {
            throw new \Error('Pillion: the process was forked; only the parent continues the chat');
        }
        try {
            $this->currentEvent = $this->readEvent($this->events);
        } catch (\Throwable $exception) {
            $this->close();
            throw $exception;
        }
    }

    private function readEvent(EventSource $events): ChatEvent
    {
        while (($nameAndData = $events->nextEvent()) !== null) {
            [$type, $json] = $nameAndData;
            try {
                $data = Json::parse($json);
            } catch (\JsonException $exception) {
                throw Failure::transport("The sidecar's response cannot be read: {$exception->getMessage()}");
            }
            if (!$data instanceof \stdClass) {
                throw Failure::transport("The sidecar's response cannot be read: '$type' is not an object");
            }
            switch ($type) {
                case 'chat':
                    $this->state = is_string($data->id ?? null) ? $data->id : null;
                    break;
                case 'done':
                    $this->answer = ChatResponse::parse($data, $this->state ?? '');
                    $this->state = $this->answer->state;
                    $this->close();
                    return new ChatEvent('done', [], $this->answer);
                case 'tool_waiting':
                    return new ChatEvent($type, ChatResponse::parseApproval($data));
                default:
                    return new ChatEvent($type, Json::toArrays($data));
            }
        }
        throw Failure::transport('The sidecar ended the stream before the chat had ended');
    }

    private function close(): void
    {
        $this->events?->close();
        $this->events = null;
    }
}
