<?php

declare(strict_types=1);

namespace Pillion\Laravel\Console;

use Illuminate\Console\Command;
use Pillion\Exception\PillionException;
use Pillion\Laravel\PillionManager;
use Pillion\Laravel\Servers\Server;

final class ProbeCommand extends Command
{
    use RejectsEmptyOptions;

    protected $signature = 'pillion:probe
        {server : The name of the server in config/pillion.php}
        {--user= : The user whose token is used}';

    protected $description = 'Connect to an MCP server; show its name, its tools and the latency';

    public function handle(PillionManager $pillion): int
    {
        $user = $this->option('user');
        $manager = $user === null ? $pillion : $pillion->forUser($user);
        $started = microtime(true);
        try {
            $server = $manager->server($this->argument('server'));
            $this->line($this->describe($server));
            $connected = microtime(true);
            $tools = $server->listTools();
        } catch (PillionException $e) {
            $this->error(TerminalText::escape($e->getMessage() . " ($e->errorCode)"));
            return self::FAILURE;
        }
        $this->line(sprintf('Connected in %.0f ms', 1e3 * ($connected - $started)));
        $this->line(sprintf(
            '%d tools in %.0f ms: %s',
            count($tools),
            1e3 * (microtime(true) - $connected),
            TerminalText::escapeLine(implode(', ', array_column($tools, 'name'))),
        ));
        return self::SUCCESS;
    }

    private function describe(Server $server): string
    {
        if (!extension_loaded('pillion')) {
            return 'A server connected through the sidecar, which does not report details';
        }
        $info = $server->getServerInfo();
        return sprintf(
            '<info>%s</info>, protocol %s over %s',
            TerminalText::escapeLine(trim(($info['name'] ?? '(unnamed server)') . ' ' . ($info['version'] ?? ''))),
            TerminalText::escapeLine($info['protocol_version'] ?? 'unknown'),
            TerminalText::escapeLine($info['transport']),
        );
    }
}
