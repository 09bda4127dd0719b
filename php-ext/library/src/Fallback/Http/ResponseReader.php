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
    /** @var array<string, string> */
    private array $headers = [];
    /**
     * The next part to read: `head`, `body`, `chunk line`, `chunk`, `trailer`, `all` (until the connection
     * closes), or `done`.
     */
    private string $stage = 'head';
    /** Number of bytes remaining in the body or chunk. */
    private int $remainingBytes = 0;
    private bool $canReuseConnection = true;

    /** @param bool $expectsBody false for the response to a HEAD request, which has headers of a body but no body */
    public function __construct(private readonly bool $expectsBody = true)
    {
    }

    /** Returns the HTTP status; 0 until the head has been read. */
    public function status(): int
    {
        return $this->stage === 'head' ? 0 : $this->status;
    }

    /** @return array<string, string> the headers by name in lower case; empty until the head has been read */
    public function headers(): array
    {
        return $this->headers;
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
            $previousState = [$this->stage, strlen($this->buffer)];
            match ($this->stage) {
                'head' => $this->readHead(),
                'body', 'chunk' => $this->readBytes(),
                'chunk line' => $this->readChunkLine(),
                'trailer' => $this->readTrailer(),
                'all' => $this->append($this->buffer),
                'done' => null,
            };
        } while ($previousState !== [$this->stage, strlen($this->buffer)]);
    }

    /**
     * Completes the response after the peer has closed the connection.
     *
     * @throws \Pillion\Exception\TransportException when the response is incomplete
     */
    public function finish(): void
    {
        if ($this->stage !== 'all') {
            throw TransportErrors::connectionClosed($this->status === 0 && $this->buffer === '' ? 'no response' : 'an incomplete response');
        }
        $this->canReuseConnection = false;
        $this->stage = 'done';
    }

    private function readHead(): void
    {
        $headEnd = strpos($this->buffer, "\r\n\r\n");
        if ($headEnd === false) {
            if (strlen($this->buffer) > self::MAX_HEAD_LEN) {
                throw TransportErrors::invalidHttp('the headers are longer than ' . self::MAX_HEAD_LEN . ' bytes');
            }
            if (strncmp($this->buffer, 'HTTP/1.', min(7, strlen($this->buffer))) !== 0) {
                throw TransportErrors::invalidHttp('the response does not start with a status line');
            }
            return;
        }
        $lines = explode("\r\n", substr($this->buffer, 0, $headEnd));
        $this->buffer = substr($this->buffer, $headEnd + 4);
        if (preg_match('~^HTTP/1\.([01]) (\d{3})(?: |$)~', array_shift($lines), $matches) !== 1) {
            throw TransportErrors::invalidHttp('the response does not start with a status line');
        }
        $this->status = (int) $matches[2];
        if ($this->status < 200) {
            // An interim response (status 1xx) is skipped, because the final response follows it.
            return;
        }
        $this->canReuseConnection = $matches[1] === '1';
        $this->headers = $this->parseHeaders($lines);
        $this->readFraming($this->headers);
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
            [$fieldName, $value] = explode(':', $line, 2) + [1 => ''];
            $name = strtolower($fieldName);
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
        if (!$this->expectsBody) {
            $this->stage = 'done';
            return;
        }
        if (isset($headers['transfer-encoding'])) {
            if (strtolower($headers['transfer-encoding']) !== 'chunked') {
                throw TransportErrors::invalidHttp('unsupported Transfer-Encoding');
            }
            $this->stage = 'chunk line';
            return;
        }
        $contentLength = $headers['content-length'] ?? null;
        if ($this->status === 204 || $this->status === 304) {
            $this->stage = 'done';
        } elseif ($contentLength === null) {
            $this->stage = 'all';
        } elseif (preg_match('/^\d{1,15}$/', $contentLength) !== 1) {
            throw TransportErrors::invalidHttp('invalid Content-Length');
        } else {
            $this->expectBytes((int) $contentLength);
            $this->stage = $this->remainingBytes === 0 ? 'done' : 'body';
        }
    }

    private function readBytes(): void
    {
        $chunk = substr($this->buffer, 0, $this->remainingBytes);
        $this->remainingBytes -= strlen($chunk);
        $rest = substr($this->buffer, strlen($chunk));
        $this->append($chunk);
        $this->buffer = $rest;
        if ($this->remainingBytes > 0) {
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
        $lineEnd = strpos($this->buffer, "\r\n");
        if ($lineEnd === false) {
            if (strlen($this->buffer) > self::MAX_CHUNK_LINE_LEN) {
                throw TransportErrors::invalidHttp('a chunk has no valid size');
            }
            return;
        }
        if (preg_match('/^([0-9a-fA-F]{1,15})[ \t]*(?:;|$)/D', substr($this->buffer, 0, $lineEnd), $matches) !== 1) {
            throw TransportErrors::invalidHttp('a chunk has no valid size');
        }
        $this->buffer = substr($this->buffer, $lineEnd + 2);
        $this->expectBytes((int) hexdec($matches[1]));
        $this->stage = $this->remainingBytes === 0 ? 'trailer' : 'chunk';
    }

    private function readTrailer(): void
    {
        if (str_starts_with($this->buffer, "\r\n")) {
            // An empty trailer section consists of a single line break (2 bytes). With -2, the
            // offset `$trailerEnd + 4` below points behind this line break.
            $trailerEnd = -2;
        } else {
            $trailerEnd = strpos($this->buffer, "\r\n\r\n");
        }
        if ($trailerEnd !== false) {
            $this->buffer = substr($this->buffer, $trailerEnd + 4);
            $this->stage = 'done';
        } elseif (strlen($this->buffer) > self::MAX_HEAD_LEN) {
            throw TransportErrors::invalidHttp('the trailer section is longer than ' . self::MAX_HEAD_LEN . ' bytes');
        }
    }

    private function expectBytes(int $bytes): void
    {
        if (strlen($this->body) + $bytes > Response::MAX_BODY_BYTES) {
            throw TransportErrors::responseTooLong();
        }
        $this->remainingBytes = $bytes;
    }

    private function append(string $bytes): void
    {
        if (strlen($this->body) + strlen($bytes) > Response::MAX_BODY_BYTES) {
            throw TransportErrors::responseTooLong();
        }
        $this->body .= $bytes;
        $this->buffer = '';
    }
}
