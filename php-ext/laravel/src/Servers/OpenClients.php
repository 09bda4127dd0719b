<?php

declare(strict_types=1);

namespace Pillion\Laravel\Servers;

use Pillion\McpClient;

/**
 * The clients that one request or job has used, for all its users. Their sessions are closed at
 * its end if the application disconnects.
 */
final class OpenClients
{
    /** @var list<McpClient> */
    private array $clients = [];

    public function add(McpClient $client): void
    {
        $this->clients[] = $client;
    }

    /** Closes the sessions. */
    public function disconnect(): void
    {
        foreach ($this->clients as $client) {
            $client->disconnect();
        }
        $this->clients = [];
    }
}
