<?php

declare(strict_types=1);

namespace Pillion\Laravel\Servers;

use Illuminate\Contracts\Cache\Factory as Cache;
use Illuminate\Contracts\Config\Repository;
use Pillion\Exception\InvalidInputException;
use Pillion\Fallback\NearestKey;
use Pillion\Laravel\ConfigReader;
use Pillion\Laravel\EventBridge;
use Pillion\Laravel\Hooks;
use Pillion\McpClient;

/**
 * Creates the clients of the configured servers for one user and tenant. Creating a client is
 * cheap: the process owns the sessions, and clients with the same server and credentials share a
 * session.
 */
final class Clients
{
    /** @var array<string, McpClient> */
    private array $clients = [];

    public function __construct(
        private readonly Repository $config,
        private readonly Cache $cache,
        private readonly Hooks $hooks,
        private readonly EventBridge $events,
        private readonly OpenClients $open,
        private readonly ?ClientLog $log,
        private readonly ?string $user,
        private readonly ?string $tenant,
    ) {
    }

    public function client(ServerConfig $server): McpClient
    {
        return $this->clients[$server->name] ??= $this->createClient($server);
    }

    /** Returns the scope that separates the tool lists of tenants, and of users with their own tokens. */
    public function scope(ServerConfig $server): string
    {
        $scope = 'tenant:' . ($this->tenant ?? '');
        return $this->hooks->hasTokenFor($server->name) ? $scope . ':user:' . ($this->user ?? '') : $scope;
    }

    /** Closes the sessions with all MCP servers for which {@see client()} has created a client. */
    public function disconnect(): void
    {
        foreach ($this->clients as $client) {
            $client->disconnect();
        }
        $this->clients = [];
    }

    /**
     * Rejects a server if `authenticateUsing()` was called with an unknown name that resembles the
     * server's name. With a misspelled name, all users of the server would share the application's
     * credentials.
     *
     * @throws InvalidInputException
     */
    private function rejectMisspelledName(ServerConfig $server): void
    {
        $unknownNames = array_diff($this->hooks->serversWithTokens(), array_map('strval', array_keys(ConfigReader::readArray($this->config, 'servers'))));
        foreach ($unknownNames as $name) {
            if (NearestKey::find($name, [$server->name]) !== null) {
                throw new InvalidInputException("authenticateUsing() names the server '$name', which is not in pillion.servers: did you mean '$server->name'?");
            }
        }
    }

    private function createClient(ServerConfig $server): McpClient
    {
        // If a server has user tokens, the request of a user without a token is sent without any
        // token: the application's token must not be used for this user.
        $usesUserToken = $this->hooks->hasTokenFor($server->name);
        if ($usesUserToken) {
            $server->assertAcceptsUserTokens();
        } else {
            $this->rejectMisspelledName($server);
        }
        $token = $usesUserToken ? (string) $this->hooks->token($server->name, $this->user) : null;
        $client = new McpClient($server->serverArgument($usesUserToken), $server->options($token));
        $client->setEventDispatcher($this->events)->setLogger($this->log);
        $ttl = ConfigReader::readWholeNumber($this->config, 'cache.ttl', 300);
        if ($ttl > 0) {
            $cacheStore = $this->cache->store(ConfigReader::readOptionalText($this->config, 'cache.store'));
            $client->setCache(new ClientCache($cacheStore), $ttl, $this->scope($server));
        }
        if (ConfigReader::readFlag($this->config, 'disconnect_on_terminate')) {
            $this->open->add($client);
        }
        return $client;
    }
}
