<?php

declare(strict_types=1);

namespace Pillion\Laravel\Console;

use Illuminate\Console\Command;
use Pillion\Exception\PillionException;
use Pillion\Laravel\PillionManager;

final class ProbeCommand extends Command
{
    protected $signature = 'pillion:probe
        {server : Its name in config/pillion.php}
        {--user= : With whose token}';

    protected $description = 'Speak to an MCP server: who it is, what it offers, how long it takes';

    public function handle(PillionManager $pillion): int
    {
        $user = $this->option('user');
        $manager = $user === null ? $pillion : $pillion->forUser($user);
        $started = microtime(true);
        try {
            $server = $manager->server($this->argument('server'));
            $info = $server->getServerInfo();
            $connected = microtime(true);
            $tools = $server->listTools();
            $listed = microtime(true);
        } catch (PillionException $e) {
            $this->error($e->getMessage() . " ($e->errorCode)");
            return self::FAILURE;
        }
        $this->line(sprintf('<info>%s</info> %s', $info['name'] ?? 'A server without a name', $info['version'] ?? ''));
        $this->line(sprintf('Protocol %s over %s', $info['protocol_version'] ?? 'unknown', $info['transport'] ?? 'unknown'));
        $this->line(sprintf('Connected in %.0f ms, listed in %.0f ms', 1e3 * ($connected - $started), 1e3 * ($listed - $connected)));
        $this->line(count($tools) . ' tools: ' . implode(', ', array_column($tools, 'name')));
        return self::SUCCESS;
    }
}
