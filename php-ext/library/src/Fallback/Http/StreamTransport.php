<?php

declare(strict_types=1);

namespace Pillion\Fallback\Http;

/**
 * With PHP's own streams, for where ext-curl is missing.
 *
 * @internal
 */
final class StreamTransport implements Transport
{
    private const READ_BYTES = 65536;

    /** @var ?resource the connection that is kept; null while a call uses it */
    private $kept = null;

    public function __construct(private readonly string $path)
    {
    }

    public function send(Request $request, Deadline $deadline): Response
    {
        $stream = $this->take() ?? $this->connect($deadline);
        $reader = new ResponseReader();
        $left = $this->head($request) . $request->body;
        while (!$reader->isDone()) {
            if ($deadline->isOver()) {
                throw Trouble::time($deadline);
            }
            if (!$this->awaits($stream, $left !== '', $deadline)) {
                continue;
            }
            $bytes = (string) @fread($stream, self::READ_BYTES);
            if ($bytes !== '') {
                $reader->feed($bytes);
            } elseif (feof($stream)) {
                $reader->end();
            }
            if ($left !== '') {
                $left = $this->write($stream, $left);
            }
        }
        if ($reader->keepsConnection() && $left === '') {
            $this->kept = $stream;
        }
        return $reader->response();
    }

    /**
     * The kept connection, if it still is one: open means that nothing is there to read,
     * neither an end nor bytes that nobody asked for.
     *
     * @return ?resource
     */
    private function take()
    {
        $stream = $this->kept;
        $this->kept = null;
        if ($stream === null) {
            return null;
        }
        $read = [$stream];
        $write = $except = null;
        return @stream_select($read, $write, $except, 0, 0) === 0 ? $stream : null;
    }

    /** @return resource */
    private function connect(Deadline $deadline)
    {
        $errno = 0;
        $stream = @stream_socket_client("unix://$this->path", $errno, $message, max(0.001, $deadline->seconds));
        if ($stream === false) {
            throw $deadline->isOver() ? Trouble::time($deadline) : Trouble::connecting($this->path, $errno);
        }
        stream_set_blocking($stream, false);
        return $stream;
    }

    /**
     * Waits for a slice of time.
     *
     * @param resource $stream
     *
     * @return bool whether there is something to do; not so when a signal came first
     */
    private function awaits($stream, bool $toWrite, Deadline $deadline): bool
    {
        $read = [$stream];
        $write = $toWrite ? [$stream] : null;
        $except = null;
        return (int) @stream_select($read, $write, $except, 0, (int) ceil($deadline->slice() * 1e6)) > 0;
    }

    /**
     * @param resource $stream
     *
     * @return string what is left to write; nothing once the peer reads no more, for its
     *                answer may be there all the same
     */
    private function write($stream, string $bytes): string
    {
        $written = @fwrite($stream, $bytes);
        return $written === false ? '' : substr($bytes, $written);
    }

    private function head(Request $request): string
    {
        $lines = ["{$request->method()} $request->path HTTP/1.1", 'host: pillion', ...$request->headerLines()];
        if ($request->body !== null) {
            $lines[] = 'content-length: ' . strlen($request->body);
        }
        return implode("\r\n", $lines) . "\r\n\r\n";
    }
}
