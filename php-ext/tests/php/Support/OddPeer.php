<?php

declare(strict_types=1);

namespace Pillion\Tests\Support;

/** A peer on a Unix socket that answers in one odd way; see tests/servers/peer.php. */
final class OddPeer
{
    public readonly string $socket;

    /** @var ?resource null once it is stopped */
    private $process;
    private int $requests = 0;

    /** @var array<int, resource> */
    private array $pipes = [];

    public function __construct(string $behaviour)
    {
        $this->socket = sys_get_temp_dir() . '/pillion-odd-' . bin2hex(random_bytes(6));
        $command = [PHP_BINARY, '-n', __DIR__ . '/../../servers/peer.php', $this->socket, $behaviour];
        $process = proc_open($command, [['pipe', 'r'], ['pipe', 'w'], STDERR], $this->pipes);
        if ($process === false) {
            throw new \RuntimeException('The peer could not be started');
        }
        $this->process = $process;
        fgets($this->pipes[1]);
    }

    /** Ends it; returns how many requests it has read. */
    public function stop(): int
    {
        if ($this->process !== null) {
            proc_terminate($this->process, SIGTERM);
            $this->requests = substr_count((string) stream_get_contents($this->pipes[1]), 'request ');
            proc_close($this->process);
            $this->process = null;
            @unlink($this->socket);
        }
        return $this->requests;
    }
}
