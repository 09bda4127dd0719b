<?php

declare(strict_types=1);

namespace Pillion\Laravel\Tools;

use Illuminate\Contracts\Cache\Factory as Cache;
use Illuminate\Contracts\Config\Repository;
use Pillion\Exception\PillionException;
use Pillion\Laravel\ConfigReader;
use Pillion\Laravel\Servers\ClientLog;
use Pillion\Laravel\Servers\Clients;
use Pillion\Laravel\Servers\ServerConfig;
use Pillion\Laravel\Servers\ServerDirectory;
use Pillion\Sidecar;
use Pillion\ToolDefinition;
use Pillion\ToolRegistry;

/**
 * Adds the tools of the MCP servers and of the sidecar to a registry. An unreachable server is logged and
 * skipped for a while.
 */
final class RemoteToolLoader
{
    /** @var array<string, string> reasons for skipped servers */
    private array $skipReasons = [];

    public function __construct(
        private readonly Repository $config,
        private readonly Cache $cache,
        private readonly ServerDirectory $servers,
        private readonly Clients $clients,
        private readonly ?ClientLog $log,
        private readonly ?Sidecar $sidecar,
        private readonly ?string $user,
    ) {
    }

    public function addTools(ToolRegistry $registry): void
    {
        foreach ($this->servers->all() as $server) {
            if ($server->register && $server->class === null) {
                $this->loadOrSkip(
                    $server->name,
                    $this->clients->scope($server),
                    fn () => $this->addServer($registry, $server),
                );
            }
        }
        $sidecar = $this->sidecar;
        if ($sidecar !== null) {
            $this->loadOrSkip('(sidecar)', $sidecar->getSocketPath(), fn () => $this->addSidecar($registry, $sidecar));
        }
    }

    /** @return array<string, string> reasons by server */
    public function skipped(): array
    {
        return $this->skipReasons;
    }

    private function addServer(ToolRegistry $registry, ServerConfig $server): void
    {
        $names = $registry->registerMcpServer($this->clients->client($server), $server->prefix);
        foreach ($names as $name) {
            if (!$server->isOffered(substr($name, strlen($server->prefix)))) {
                $registry->unregister($name);
            }
        }
    }

    /**
     * Adds the sidecar's tools of MCP servers. The sidecar's built-in tools are skipped, because the
     * application has its own.
     */
    private function addSidecar(ToolRegistry $registry, Sidecar $sidecar): void
    {
        foreach ($sidecar->listTools(context: $this->user === null ? [] : ['user' => $this->user]) as $tool) {
            if (!isset($tool['server_label']) || $registry->has($tool['name'])) {
                continue;
            }
            $definition = new ToolDefinition(
                $tool['name'],
                $tool['description'],
                $tool['parameters'],
                category: $tool['category'],
            );
            $registry->register(new SidecarTool($sidecar, $definition, $tool['server_label'], $this->user));
        }
    }

    private function loadOrSkip(string $server, string $scope, \Closure $loadTools): void
    {
        $cache = $this->cache->store(ConfigReader::readOptionalText($this->config, 'cache.store'));
        $cacheKey = "pillion:skipped:$server:" . hash('sha256', $scope);
        $knownReason = $cache->get($cacheKey);
        if ($knownReason !== null) {
            $this->skipReasons[$server] = $knownReason;
            return;
        }
        try {
            $loadTools();
        } catch (PillionException $exception) {
            $this->skipReasons[$server] = $exception->getMessage();
            $this->log?->log('warning', 'Skipped an MCP server that failed', ['server' => $server, 'error' => $exception->getMessage()]);
            $retryAfter = ConfigReader::readWholeNumber($this->config, 'cache.retry_after', 30);
            if ($retryAfter > 0) {
                $cache->put($cacheKey, $exception->getMessage(), $retryAfter);
            }
        }
    }
}
