<?php

declare(strict_types=1);

namespace Pillion\Fallback\Http;

/**
 * HTTP on a Unix socket, with a connection that is kept.
 *
 * @internal
 */
interface Transport
{
    /**
     * Sends a request once: what may have reached the peer is never sent again.
     *
     * @throws \Pillion\Exception\UnavailableException when nobody listens
     * @throws \Pillion\Exception\TimeoutException
     * @throws \Pillion\Exception\TransportException   when the answer breaks off, is too long or no HTTP
     */
    public function send(Request $request, Deadline $deadline): Response;
}
