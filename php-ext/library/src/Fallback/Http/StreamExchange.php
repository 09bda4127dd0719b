<?php

declare(strict_types=1);

namespace Pillion\Fallback\Http;

/**
 * One HTTP request on a non-blocking stream, and the response received so far.
 *
 * @internal
 */
final class StreamExchange
{
    private const READ_BYTES = 65536;

    private readonly ResponseReader $reader;
    /** The bytes of the request that remain to be written. */
    private string $unsentBytes;

    /** @param resource $stream */
    public function __construct(public readonly mixed $stream, Request $request, public Deadline $deadline)
    {
        $this->reader = new ResponseReader($request->method() !== 'HEAD');
        $lines = ["{$request->method()} $request->path HTTP/1.1", ...$request->formatHeaders()];
        if (!isset($request->headers['host'])) {
            $lines[] = 'host: pillion';
        }
        if ($request->body !== null) {
            $lines[] = 'content-length: ' . strlen($request->body);
        }
        $this->unsentBytes = implode("\r\n", $lines) . "\r\n\r\n" . $request->body;
    }

    public function hasUnsentBytes(): bool
    {
        return $this->unsentBytes !== '';
    }

    /**
     * Reads and writes as much as possible without blocking. Returns whether the response is complete.
     *
     * @throws \Pillion\Exception\PillionException
     */
    public function advance(): bool
    {
        $bytes = (string) @fread($this->stream, self::READ_BYTES);
        if ($bytes !== '') {
            $this->reader->feed($bytes);
        } elseif (feof($this->stream)) {
            $this->reader->finish();
        }
        if ($this->unsentBytes !== '' && !$this->reader->isDone()) {
            $writtenBytes = @fwrite($this->stream, $this->unsentBytes);
            // The response is read even after a failed write, because a peer that stopped reading
            // may have sent a response.
            $this->unsentBytes = $writtenBytes === false ? '' : substr($this->unsentBytes, $writtenBytes);
        }
        if ($this->reader->isDone()) {
            return true;
        }
        return $this->deadline->hasPassed() ? throw TransportErrors::timeout($this->deadline) : false;
    }

    /** Returns the HTTP status; 0 until the head has been read. */
    public function status(): int
    {
        return $this->reader->status();
    }

    /** @return array<string, string> the headers by name in lower case; empty until the head has been read */
    public function headers(): array
    {
        return $this->reader->headers();
    }

    /** Returns the part of the body received since the last call, for a streamed response. */
    public function takeBody(): string
    {
        return $this->reader->takeBody();
    }

    public function response(): Response
    {
        return $this->reader->response();
    }

    /** Returns whether the connection can be reused for another request. */
    public function canReuseConnection(): bool
    {
        return $this->reader->canReuseConnection() && $this->unsentBytes === '';
    }
}
