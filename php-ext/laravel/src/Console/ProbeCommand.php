<?php

declare(strict_types=1);

namespace Pillion\Laravel\Console;

use Illuminate\Console\Command;
use Pillion\Exception\PillionException;
use Pillion\Laravel\PillionManager;
use Pillion\Laravel\Servers\Server;

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
            $this->line($this->introduction($server));
            $connected = microtime(true);
            $tools = $server->listTools();
        } catch (PillionException $e) {
            $this->error(Shown::lines($e->getMessage() . " ($e->errorCode)"));
            return self::FAILURE;
        }
        $this->line(sprintf('Connected in %.0f ms', 1e3 * ($connected - $started)));
        $this->line(sprintf(
            '%d tools in %.0f ms: %s',
            count($tools),
            1e3 * (microtime(true) - $connected),
            Shown::line(implode(', ', array_column($tools, 'name'))),
        ));
        return self::SUCCESS;
    }

    private function introduction(Server $server): string
    {
        if (!extension_loaded('pillion')) {
            return 'A server behind the sidecar, which does not say more of it';
        }
        $info = $server->getServerInfo();
        return sprintf(
            '<info>%s</info>, protocol %s over %s',
            Shown::line(trim(($info['name'] ?? 'A server without a name') . ' ' . ($info['version'] ?? ''))),
            Shown::line($info['protocol_version'] ?? 'unknown'),
            Shown::line($info['transport']),
        );
    }
}
