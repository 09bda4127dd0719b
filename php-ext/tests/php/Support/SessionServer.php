<?php

declare(strict_types=1);

namespace Pillion\Tests\Support;

/** The fake MCP server with sessions, which tells who has spoken to it. */
final class SessionServer
{
    private readonly ServerScript $server;

    public readonly string $url;

    public function __construct()
    {
        $this->server = new ServerScript(['python3'], 'sessions.py');
        $this->url = "http://127.0.0.1:{$this->server->firstLine}/mcp";
    }

    /** @return array{opened: list<string>, ended: list<string>, connections: int} */
    public function seen(): array
    {
        $seen = (string) file_get_contents("http://127.0.0.1:{$this->server->firstLine}/seen");
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
        for ($tries = 0; !$is($seen = $this->seen()) && $tries < 3_000; $tries++) {
            usleep(20_000);
        }
        return $seen;
    }

    public function pid(): int
    {
        return $this->server->pid();
    }

    public function stop(): void
    {
        $this->server->stop(SIGKILL);
    }
}
