<?php

declare(strict_types=1);

namespace Pillion\Tests\Support;

/** The fake MCP server with sessions. Reports the sessions `opened` and `ended`, and `connections`. */
final class SessionServer
{
    use ReportsState;

    public readonly string $url;

    public function __construct()
    {
        $this->server = new ServerScript(['python3'], 'sessions.py');
        $this->url = "http://127.0.0.1:{$this->server->firstLine}/mcp";
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
