<?php

declare(strict_types=1);

namespace Pillion\Fallback\Http;

/**
 * A response on a dedicated connection, whose body is read in parts as they arrive.
 *
 * @internal
 */
final class BodyStream
{
    private bool $isDone = false;

    private function __construct(private readonly StreamExchange $exchange)
    {
    }

    /**
     * Sends a request and waits for the response headers.
     *
     * @throws \Pillion\Exception\PillionException as {@see Transport::send()}
     */
    public static function open(string $socketPath, Request $request, Deadline $deadline): self
    {
        Transports::check($socketPath);
        $stream = new self(new StreamExchange(StreamTransport::connect($socketPath, $deadline), $request, $deadline));
        while ($stream->exchange->status() === 0) {
            $stream->advance();
        }
        return $stream;
    }

    public function status(): int
    {
        return $this->exchange->status();
    }

    /** @return array<string, string> the headers by name in lower case */
    public function headers(): array
    {
        return $this->exchange->headers();
    }

    /**
     * Waits for and returns the next part of the body; null at the end.
     *
     * @throws \Pillion\Exception\TimeoutException   when nothing arrives before the deadline
     * @throws \Pillion\Exception\CancelledException when the deadline's token was cancelled
     * @throws \Pillion\Exception\TransportException when the response is incomplete or not valid HTTP
     */
    public function read(Deadline $deadline): ?string
    {
        $this->exchange->deadline = $deadline;
        while (($bytes = $this->exchange->takeBody()) === '' && !$this->isDone) {
            $this->advance();
        }
        if ($bytes !== '') {
            return $bytes;
        }
        $this->close();
        return null;
    }

    /** Closes the connection, which cancels the sidecar's work for this request. */
    public function close(): void
    {
        $this->isDone = true;
        if (is_resource($this->exchange->stream)) {
            fclose($this->exchange->stream);
        }
    }

    private function advance(): void
    {
        StreamTransport::wait([$this->exchange]);
        $this->isDone = $this->exchange->advance();
    }
}
