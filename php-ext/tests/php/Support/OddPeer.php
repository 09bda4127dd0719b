<?php

declare(strict_types=1);

namespace Pillion\Tests\Support;

/** A server on a Unix socket with one kind of unusual response; see tests/servers/peer.php. */
final class OddPeer
{
    public readonly string $socket;

    /** Null once stopped. */
    private ?ServerScript $server;
    private int $requests = 0;

    public function __construct(string $behavior)
    {
        $this->socket = sys_get_temp_dir() . '/pillion-odd-' . bin2hex(random_bytes(6));
        $this->server = new ServerScript([PHP_BINARY, '-n'], 'peer.php', [$this->socket, $behavior]);
    }

    public function __destruct()
    {
        $this->stop();
    }

    /** Stops the server; returns the number of requests that it read. */
    public function stop(): int
    {
        if ($this->server !== null) {
            $this->requests = substr_count($this->server->stop(SIGTERM), 'request ');
            $this->server = null;
            @unlink($this->socket);
        }
        return $this->requests;
    }
}
