<?php

declare(strict_types=1);

namespace Pillion\Fallback\Http;

/**
 * One request on a stream that does not block, and what has come of its answer.
 *
 * @internal
 */
final class StreamExchange
{
    private const READ_BYTES = 65536;

    private readonly ResponseReader $reader;
    /** What is still to be written. */
    private string $left;

    /** @param resource $stream */
    public function __construct(public readonly mixed $stream, Request $request, public readonly Deadline $deadline)
    {
        $this->reader = new ResponseReader();
        $lines = ["{$request->method()} $request->path HTTP/1.1", 'host: pillion', ...$request->headerLines()];
        if ($request->body !== null) {
            $lines[] = 'content-length: ' . strlen($request->body);
        }
        $this->left = implode("\r\n", $lines) . "\r\n\r\n" . $request->body;
    }

    public function hasToWrite(): bool
    {
        return $this->left !== '';
    }

    /**
     * Reads and writes what can be; says whether the answer is complete.
     *
     * @throws \Pillion\Exception\PillionException
     */
    public function advance(): bool
    {
        $bytes = (string) @fread($this->stream, self::READ_BYTES);
        if ($bytes !== '') {
            $this->reader->feed($bytes);
        } elseif (feof($this->stream)) {
            $this->reader->end();
        }
        if ($this->left !== '' && !$this->reader->isDone()) {
            $written = @fwrite($this->stream, $this->left);
            // A peer that reads no more may have answered all the same.
            $this->left = $written === false ? '' : substr($this->left, $written);
        }
        if ($this->reader->isDone()) {
            return true;
        }
        return $this->deadline->isOver() ? throw Trouble::time($this->deadline) : false;
    }

    /** The HTTP status; 0 before the head of the answer is there. */
    public function status(): int
    {
        return $this->reader->status();
    }

    /** What of the body has come since the last time, for an answer that is read as it comes. */
    public function take(): string
    {
        return $this->reader->take();
    }

    public function response(): Response
    {
        return $this->reader->response();
    }

    /** Whether another request may follow on the connection. */
    public function keepsConnection(): bool
    {
        return $this->reader->keepsConnection() && $this->left === '';
    }
}
