<?php

declare(strict_types=1);

namespace Pillion\Fallback\Http;

use Pillion\Exception\PillionException;

/**
 * HTTP over a Unix socket with persistent connections.
 *
 * @internal
 */
abstract class Transport
{
    /**
     * Sends a request once. A request that may have reached the peer is never sent again.
     *
     * @throws \Pillion\Exception\UnavailableException when no process listens on the socket
     * @throws \Pillion\Exception\TimeoutException
     * @throws \Pillion\Exception\CancelledException   when the deadline's token was cancelled
     * @throws \Pillion\Exception\TransportException   when the response is incomplete, too long or not valid HTTP
     */
    public function send(Request $request, Deadline $deadline): Response
    {
        $outcome = $this->sendAll([[$request, $deadline]])[0];
        return $outcome instanceof Response ? $outcome : throw $outcome;
    }

    /**
     * Sends requests concurrently, each with its own deadline. A failed request does not affect the other
     * requests.
     *
     * @param array<int, array{Request, Deadline}> $exchanges
     *
     * @return array<int, Response|PillionException> the outcomes, with the keys of `$exchanges`
     */
    abstract public function sendAll(array $exchanges): array;
}
