<?php

declare(strict_types=1);

namespace Pillion\Laravel\Servers;

use Pillion\McpClient;

/** The clients of one request or job, for all its users, in an application that disconnects at its end. */
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
