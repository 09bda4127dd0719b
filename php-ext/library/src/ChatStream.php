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
    private ?ChatEvent $current = null;
    private ?ChatAnswer $answer = null;
    private ?int $position = null;
    private readonly int $process;

    private function __construct(private ?EventSource $events, private ?string $state)
    {
        $this->process = (int) getmypid();
    }

    /** Cancels the chat run if it has not finished. */
    public function __destruct()
    {
        if ($this->process === getmypid()) {
            $this->close();
        }
    }

    /** Returns the current event; null at the end. */
    public function current(): ?ChatEvent
    {
        $this->begin();
        return $this->current;
    }

    /** Returns the number of events before the current event. */
    public function key(): int
    {
        $this->begin();
        return (int) $this->position;
    }

    /**
     * Waits for the next event or for the end of the chat.
     *
     * @throws Exception\PillionException when the connection to the sidecar is lost; a failure of the model ends in a failed {@see ChatAnswer}
     */
    public function next(): void
    {
        $this->begin();
        $this->advance();
    }

    /** Waits for the first event. Like a generator, a started stream cannot be rewound. */
    public function rewind(): void
    {
        if ($this->position > 0) {
            throw new \Error('A ChatStream cannot be rewound');
        }
        $this->begin();
    }

    public function valid(): bool
    {
        $this->begin();
        return $this->current !== null;
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
        $this->current = null;
        return $this->answer;
    }

    /**
     * Returns the state that resumes the chat from the current point, for callers that leave the stream
     * early. Calls that have started do not start again. If the chat runs in this process, `getState()` ends
     * the run; a tool of the chat cannot call `getState()`.
     */
    public function getState(): ?string
    {
        return $this->state;
    }

    private function begin(): void
    {
        if ($this->position === null) {
            $this->advance();
        }
    }

    /** Waits for the next event or for the end of the chat. */
    private function advance(): void
    {
        $this->current = null;
        $this->position = $this->position === null ? 0 : $this->position + 1;
        if ($this->events === null) {
            return;
        }
        if ($this->process !== getmypid()) {
            throw new \Error('Pillion: the process was forked; only the parent continues the chat');
        }
        try {
            $this->current = $this->event($this->events);
        } catch (\Throwable $e) {
            $this->close();
            throw $e;
        }
    }

    private function event(EventSource $events): ChatEvent
    {
        while (($event = $events->nextEvent()) !== null) {
            [$type, $json] = $event;
            try {
                $data = Json::parse($json);
            } catch (\JsonException $e) {
                throw Failure::transport("The sidecar's response cannot be read: {$e->getMessage()}");
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
