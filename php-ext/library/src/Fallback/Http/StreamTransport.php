<?php

declare(strict_types=1);

namespace Pillion\Fallback\Http;

use Pillion\Exception\PillionException;

/**
 * Sends requests with PHP streams, for systems without ext-curl.
 *
 * @internal
 */
final class StreamTransport extends Transport
{
    /** @var list<resource> idle connections */
    private array $idle = [];

    public function __construct(private readonly string $path)
    {
    }

    public function sendAll(array $exchanges): array
    {
        $waiting = $outcomes = [];
        foreach ($exchanges as $key => [$request, $deadline]) {
            try {
                $waiting[$key] = new StreamExchange($this->takeIdle() ?? self::connect($this->path, $deadline), $request, $deadline);
            } catch (PillionException $e) {
                $outcomes[$key] = $e;
            }
        }
        while ($waiting !== []) {
            self::wait($waiting);
            foreach ($waiting as $key => $exchange) {
                try {
                    $isDone = $exchange->advance();
                } catch (PillionException $e) {
                    $outcomes[$key] = $e;
                    unset($waiting[$key]);
                    continue;
                }
                if ($isDone) {
                    $outcomes[$key] = $exchange->response();
                    unset($waiting[$key]);
                    if ($exchange->canReuseConnection()) {
                        $this->idle[] = $exchange->stream;
                    }
                }
            }
        }
        return $outcomes;
    }

    /**
     * Returns an idle connection that is still open. A readable connection is not usable: it is closed, or
     * has unexpected data.
     *
     * @return ?resource
     */
    private function takeIdle()
    {
        while (($stream = array_pop($this->idle)) !== null) {
            $read = [$stream];
            $write = $except = null;
            if (@stream_select($read, $write, $except, 0, 0) === 0) {
                return $stream;
            }
        }
        return null;
    }

    /** @return resource */
    public static function connect(string $path, Deadline $deadline)
    {
        $errno = 0;
        $stream = @stream_socket_client("unix://$path", $errno, $message, max(0.001, $deadline->seconds));
        if ($stream === false) {
            throw $deadline->hasPassed() ? TransportErrors::timedOut($deadline) : TransportErrors::connectFailed($path, $errno);
        }
        stream_set_blocking($stream, false);
        return $stream;
    }

    /**
     * Waits until one of the exchanges can continue, for at most one slice; a signal ends the wait early.
     *
     * @param non-empty-array<int, StreamExchange> $waiting
     */
    public static function wait(array $waiting): void
    {
        $read = array_map(static fn (StreamExchange $exchange) => $exchange->stream, $waiting);
        $write = array_intersect_key($read, array_filter($waiting, static fn (StreamExchange $exchange): bool => $exchange->hasToWrite()));
        $except = null;
        $slice = min(array_map(static fn (StreamExchange $exchange): float => $exchange->deadline->nextSlice(), $waiting));
        @stream_select($read, $write, $except, 0, (int) ceil($slice * 1e6));
    }
}
