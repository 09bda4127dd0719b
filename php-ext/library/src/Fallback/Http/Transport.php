<?php

declare(strict_types=1);

namespace Pillion\Fallback\Http;

use Pillion\Exception\PillionException;

/**
 * HTTP on a Unix socket, with connections that are kept.
 *
 * @internal
 */
abstract class Transport
{
    /**
     * Sends a request once: what may have reached the peer is never sent again.
     *
     * @throws \Pillion\Exception\UnavailableException when nobody listens
     * @throws \Pillion\Exception\TimeoutException
     * @throws \Pillion\Exception\CancelledException   when the token of the deadline was cancelled
     * @throws \Pillion\Exception\TransportException   when the answer breaks off, is too long or no HTTP
     */
    public function send(Request $request, Deadline $deadline): Response
    {
        $outcome = $this->sendAll([[$request, $deadline]])[0];
        return $outcome instanceof Response ? $outcome : throw $outcome;
    }

    /**
     * Sends requests side by side, each with a deadline of its own; none touches another.
     *
     * @param array<int, array{Request, Deadline}> $exchanges
     *
     * @return array<int, Response|PillionException> by the same keys
     */
    abstract public function sendAll(array $exchanges): array;
}
