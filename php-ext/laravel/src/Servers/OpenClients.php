<?php

declare(strict_types=1);

namespace Pillion\Laravel\Servers;

use Pillion\McpClient;

/**
 * The clients that one request or job has used, for all users. The sessions of these clients are
 * closed at the end of the request or job. Clients are added only if `disconnect_on_terminate` is
 * set.
 */
final class OpenClients
{
    /** @var list<McpClient> */
    private array $clients = [];

    public function add(McpClient $client): void
    {
        $this->clients[] = $client;
    }

    /** Closes the sessions of all clients. */
    public function disconnect(): void
    {
        foreach ($this->clients as $client) {
            $client->disconnect();
        }
        $this->clients = [];
    }
}
