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
    private array $idleStreams = [];

    public function __construct(private readonly string $socketPath)
    {
    }

    public function sendAll(array $exchanges): array
    {
        $pendingExchanges = $outcomes = [];
        foreach ($exchanges as $key => [$request, $deadline]) {
            try {
                $pendingExchanges[$key] = new StreamExchange($this->takeIdleStream() ?? self::connect($this->socketPath, $deadline), $request, $deadline);
            } catch (PillionException $exception) {
                $outcomes[$key] = $exception;
            }
        }
        while ($pendingExchanges !== []) {
            self::wait($pendingExchanges);
            foreach ($pendingExchanges as $key => $exchange) {
                try {
                    $isDone = $exchange->advance();
                } catch (PillionException $exception) {
                    $outcomes[$key] = $exception;
                    unset($pendingExchanges[$key]);
                    continue;
                }
                if ($isDone) {
                    $outcomes[$key] = $exchange->response();
                    unset($pendingExchanges[$key]);
                    if ($exchange->canReuseConnection()) {
                        $this->idleStreams[] = $exchange->stream;
                    }
                }
            }
        }
        return $outcomes;
    }

    /**
     * Returns an idle connection that is still open. A connection that is readable is discarded,
     * because the peer has closed it or has sent unexpected data.
     *
     * @return ?resource
     */
    private function takeIdleStream()
    {
        while (($stream = array_pop($this->idleStreams)) !== null) {
            $readStreams = [$stream];
            $writeStreams = $exceptStreams = null;
            if (@stream_select($readStreams, $writeStreams, $exceptStreams, 0, 0) === 0) {
                return $stream;
            }
        }
        return null;
    }

    /** @return resource */
    public static function connect(string $socketPath, Deadline $deadline)
    {
        $errno = 0;
        $stream = @stream_socket_client("unix://$socketPath", $errno, $errorMessage, max(0.001, $deadline->seconds));
        if ($stream === false) {
            throw $deadline->hasPassed() ? TransportErrors::timeout($deadline) : TransportErrors::connectFailure($socketPath, $errno);
        }
        stream_set_blocking($stream, false);
        return $stream;
    }

    /**
     * Waits until one of the exchanges can continue, for at most {@see Deadline::nextWaitSeconds()}; a signal ends the wait
     * early.
     *
     * @param non-empty-array<int, StreamExchange> $pendingExchanges
     */
    public static function wait(array $pendingExchanges): void
    {
        $readStreams = array_map(static fn (StreamExchange $exchange) => $exchange->stream, $pendingExchanges);
        $writeStreams = array_intersect_key($readStreams, array_filter($pendingExchanges, static fn (StreamExchange $exchange): bool => $exchange->hasUnsentBytes()));
        $exceptStreams = null;
        $waitSeconds = min(array_map(static fn (StreamExchange $exchange): float => $exchange->deadline->nextWaitSeconds(), $pendingExchanges));
        @stream_select($readStreams, $writeStreams, $exceptStreams, 0, (int) ceil($waitSeconds * 1e6));
    }
}
