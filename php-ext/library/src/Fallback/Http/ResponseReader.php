<?php

declare(strict_types=1);

namespace Pillion\Fallback\Http;

/**
 * An incremental parser for an HTTP/1.1 response (RFC 9112).
 *
 * @internal
 */
final class ResponseReader
{
    /** Maximum length of the head and of the trailer section, in bytes. */
    private const MAX_HEAD_LEN = 65536;
    private const MAX_CHUNK_LINE_LEN = 1024;

    private string $buffer = '';
    private string $body = '';
    private int $status = 0;
    /**
     * The next part to read: `head`, `body`, `chunk line`, `chunk`, `trailer`, `all` (until the connection
     * closes), or `done`.
     */
    private string $stage = 'head';
    /** Number of bytes remaining in the body or chunk. */
    private int $remaining = 0;
    private bool $canReuseConnection = true;

    /** Returns the HTTP status; 0 until the head has been read. */
    public function status(): int
    {
        return $this->stage === 'head' ? 0 : $this->status;
    }

    /** Returns the part of the body received since the last call. */
    public function takeBody(): string
    {
        $body = $this->body;
        $this->body = '';
        return $body;
    }

    public function isDone(): bool
    {
        return $this->stage === 'done';
    }

    /** Returns whether the connection can be reused for another request. */
    public function canReuseConnection(): bool
    {
        return $this->canReuseConnection && $this->buffer === '';
    }

    public function response(): Response
    {
        return new Response($this->status, $this->body);
    }

    /** @throws \Pillion\Exception\TransportException */
    public function feed(string $bytes): void
    {
        $this->buffer .= $bytes;
        do {
            $before = [$this->stage, strlen($this->buffer)];
            match ($this->stage) {
                'head' => $this->readHead(),
                'body', 'chunk' => $this->readBytes(),
                'chunk line' => $this->readChunkLine(),
                'trailer' => $this->readTrailer(),
                'all' => $this->append($this->buffer),
                'done' => null,
            };
        } while ($before !== [$this->stage, strlen($this->buffer)]);
    }

    /**
     * Handles a connection that the peer closed.
     *
     * @throws \Pillion\Exception\TransportException when the response is incomplete
     */
    public function end(): void
    {
        if ($this->stage !== 'all') {
            throw TransportErrors::connectionClosed($this->status === 0 && $this->buffer === '' ? 'no response' : 'an incomplete response');
        }
        $this->canReuseConnection = false;
        $this->stage = 'done';
    }

    private function readHead(): void
    {
        $end = strpos($this->buffer, "\r\n\r\n");
        if ($end === false) {
            if (strlen($this->buffer) > self::MAX_HEAD_LEN) {
                throw TransportErrors::invalidHttp('the headers are too long');
            }
            if (strncmp($this->buffer, 'HTTP/1.', min(7, strlen($this->buffer))) !== 0) {
                throw TransportErrors::invalidHttp('it does not start with a status line');
            }
            return;
        }
        $lines = explode("\r\n", substr($this->buffer, 0, $end));
        $this->buffer = substr($this->buffer, $end + 4);
        if (preg_match('~^HTTP/1\.([01]) (\d{3})(?: |$)~', array_shift($lines), $matches) !== 1) {
            throw TransportErrors::invalidHttp('it does not start with a status line');
        }
        $this->status = (int) $matches[2];
        if ($this->status < 200) {
            // An interim response (1xx) is skipped: the final response follows.
            return;
        }
        $this->canReuseConnection = $matches[1] === '1';
        $this->readFraming($this->parseHeaders($lines));
    }

    /**
     * @param list<string> $lines
     *
     * @return array<string, string>
     */
    private function parseHeaders(array $lines): array
    {
        $headers = [];
        foreach ($lines as $line) {
            [$name, $value] = explode(':', $line, 2) + [1 => ''];
            $name = strtolower($name);
            $headers[$name] = isset($headers[$name]) ? $headers[$name] . ', ' . trim($value) : trim($value);
        }
        return $headers;
    }

    /** @param array<string, string> $headers */
    private function readFraming(array $headers): void
    {
        if (strtolower($headers['connection'] ?? '') === 'close') {
            $this->canReuseConnection = false;
        }
        if (isset($headers['transfer-encoding'])) {
            if (strtolower($headers['transfer-encoding']) !== 'chunked') {
                throw TransportErrors::invalidHttp('unsupported Transfer-Encoding');
            }
            $this->stage = 'chunk line';
            return;
        }
        $length = $headers['content-length'] ?? null;
        if ($this->status === 204 || $this->status === 304) {
            $this->stage = 'done';
        } elseif ($length === null) {
            $this->stage = 'all';
        } elseif (preg_match('/^\d{1,15}$/', $length) !== 1) {
            throw TransportErrors::invalidHttp('invalid Content-Length');
        } else {
            $this->expect((int) $length);
            $this->stage = $this->remaining === 0 ? 'done' : 'body';
        }
    }

    private function readBytes(): void
    {
        $chunk = substr($this->buffer, 0, $this->remaining);
        $this->remaining -= strlen($chunk);
        $rest = substr($this->buffer, strlen($chunk));
        $this->append($chunk);
        $this->buffer = $rest;
        if ($this->remaining > 0) {
            return;
        }
        if ($this->stage === 'body') {
            $this->stage = 'done';
        } elseif (strlen($this->buffer) >= 2) {
            if (!str_starts_with($this->buffer, "\r\n")) {
                throw TransportErrors::invalidHttp('a chunk is longer than its declared size');
            }
            $this->buffer = substr($this->buffer, 2);
            $this->stage = 'chunk line';
        }
    }

    private function readChunkLine(): void
    {
        $end = strpos($this->buffer, "\r\n");
        if ($end === false) {
            if (strlen($this->buffer) > self::MAX_CHUNK_LINE_LEN) {
                throw TransportErrors::invalidHttp('a chunk has no valid size');
            }
            return;
        }
        if (preg_match('/^([0-9a-fA-F]{1,15})[ \t]*(?:;|$)/D', substr($this->buffer, 0, $end), $matches) !== 1) {
            throw TransportErrors::invalidHttp('a chunk has no valid size');
        }
        $this->buffer = substr($this->buffer, $end + 2);
        $this->expect((int) hexdec($matches[1]));
        $this->stage = $this->remaining === 0 ? 'trailer' : 'chunk';
    }

    private function readTrailer(): void
    {
        if (str_starts_with($this->buffer, "\r\n")) {
            $end = -2;
        } else {
            $end = strpos($this->buffer, "\r\n\r\n");
        }
        if ($end !== false) {
            $this->buffer = substr($this->buffer, $end + 4);
            $this->stage = 'done';
        } elseif (strlen($this->buffer) > self::MAX_HEAD_LEN) {
            throw TransportErrors::invalidHttp('the trailer section is too long');
        }
    }

    private function expect(int $bytes): void
    {
        if (strlen($this->body) + $bytes > Response::MAX_BYTES) {
            throw TransportErrors::responseTooLong();
        }
        $this->remaining = $bytes;
    }

    private function append(string $bytes): void
    {
        if (strlen($this->body) + strlen($bytes) > Response::MAX_BYTES) {
            throw TransportErrors::responseTooLong();
        }
        $this->body .= $bytes;
        $this->buffer = '';
    }
}
