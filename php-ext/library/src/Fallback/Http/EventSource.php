<?php

declare(strict_types=1);

namespace Pillion\Fallback\Http;

/**
 * Reads server-sent events from a dedicated connection. One deadline applies to the whole stream.
 *
 * @internal
 */
final class EventSource
{
    private string $buffer = '';
    /** Number of bytes in the buffer that were already searched for the end of an event. */
    private int $searchedBytes = 0;
    /** Number of bytes received. */
    private int $bytesRead = 0;
    private bool $isDone = false;

    private function __construct(private readonly BodyStream $body, private readonly Deadline $deadline)
    {
    }

    /** Opens the stream and waits for the response headers. */
    public static function open(string $path, Request $request, Deadline $deadline): self
    {
        return new self(BodyStream::open($path, $request, $deadline), $deadline);
    }

    public function status(): int
    {
        return $this->body->status();
    }

    /**
     * Waits for and returns the complete response. Must be called only if the response is not an
     * event stream.
     */
    public function readRejectedResponse(): Response
    {
        while (!$this->isDone) {
            $this->advance();
        }
        $this->close();
        return new Response($this->status(), $this->buffer);
    }

    /** @return ?array{string, string} the name and the data of the next event; null at the end */
    public function nextEvent(): ?array
    {
        while (true) {
            while (($blockEnd = strpos($this->buffer, "\n\n", max(0, $this->searchedBytes - 1))) !== false) {
                $block = substr($this->buffer, 0, $blockEnd);
                $this->buffer = substr($this->buffer, $blockEnd + 2);
                $this->searchedBytes = 0;
                if (($event = self::parseEvent($block)) !== null) {
                    return $event;
                }
            }
            if ($this->isDone) {
                return null;
            }
            $this->searchedBytes = strlen($this->buffer);
            $this->advance();
        }
    }

    /** Closes the connection, which cancels the sidecar's work for this request. */
    public function close(): void
    {
        $this->isDone = true;
        $this->body->close();
    }

    /** @return ?array{string, string} null for a comment */
    private static function parseEvent(string $block): ?array
    {
        $eventName = 'message';
        $data = [];
        foreach (explode("\n", $block) as $line) {
            if (str_starts_with($line, 'event: ')) {
                $eventName = substr($line, 7);
            } elseif (str_starts_with($line, 'data: ')) {
                $data[] = substr($line, 6);
            }
        }
        return $data === [] ? null : [$eventName, implode("\n", $data)];
    }

    private function advance(): void
    {
        $bytes = $this->body->read($this->deadline);
        if ($bytes === null) {
            $this->isDone = true;
            return;
        }
        $this->bytesRead += strlen($bytes);
        if ($this->bytesRead > Response::MAX_BODY_BYTES) {
            $this->close();
            throw TransportErrors::responseTooLong();
        }
        $this->buffer .= $bytes;
    }
}
