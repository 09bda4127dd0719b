<?php

declare(strict_types=1);

namespace Pillion\Tests\Support;

/** The fake MCP server with sessions, which tells who has spoken to it. */
final class SessionServer
{
    /** @var resource */
    private $process;

    /** @var array<int, resource> its standard input must stay open: it ends with it */
    private array $pipes = [];

    private readonly int $port;

    public readonly string $url;

    public function __construct()
    {
        $command = ['python3', __DIR__ . '/../../servers/sessions.py'];
        $process = proc_open($command, [['pipe', 'r'], ['pipe', 'w']], $this->pipes);
        if ($process === false) {
            throw new \RuntimeException('python3 could not be started');
        }
        $this->process = $process;
        $this->port = (int) fgets($this->pipes[1]);
        $this->url = "http://127.0.0.1:$this->port/mcp";
    }

    /** @return array{opened: list<string>, ended: list<string>, connections: int} */
    public function seen(): array
    {
        $seen = (string) file_get_contents("http://127.0.0.1:$this->port/seen");
        return json_decode($seen, true, flags: JSON_THROW_ON_ERROR);
    }

    /**
     * Waits until what was seen is as it should be, or for a while.
     *
     * @param callable(array{opened: list<string>, ended: list<string>, connections: int}): bool $is
     *
     * @return array{opened: list<string>, ended: list<string>, connections: int}
     */
    public function seenWhen(callable $is): array
    {
        for ($tries = 0; !$is($seen = $this->seen()) && $tries < 500; $tries++) {
            usleep(20_000);
        }
        return $seen;
    }

    public function pid(): int
    {
        return proc_get_status($this->process)['pid'];
    }

    public function stop(): void
    {
        proc_terminate($this->process, SIGKILL);
        proc_close($this->process);
    }
}
