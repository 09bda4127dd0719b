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
        $startedAt = microtime(true);
        try {
            $server = $manager->server($this->argument('server'));
            $this->line($this->describeServer($server));
            $connectedAt = microtime(true);
            $tools = $server->listTools();
        } catch (PillionException $exception) {
            $this->error(TerminalText::escape($exception->getMessage() . " ($exception->errorCode)"));
            return self::FAILURE;
        }
        $this->line(sprintf('Connected in %.0f ms', 1e3 * ($connectedAt - $startedAt)));
        $this->line(sprintf(
            '%d tools in %.0f ms: %s',
            count($tools),
            1e3 * (microtime(true) - $connectedAt),
            TerminalText::escapeLine(implode(', ', array_column($tools, 'name'))),
        ));
        return self::SUCCESS;
    }

    private function describeServer(Server $server): string
    {
        if (!extension_loaded('pillion')) {
            return 'The server is connected through the sidecar, which does not report details';
        }
        $serverInfo = $server->getServerInfo();
        return sprintf(
            '<info>%s</info>, protocol %s over %s',
            TerminalText::escapeLine(trim(($serverInfo['name'] ?? '(unnamed server)') . ' ' . ($serverInfo['version'] ?? ''))),
            TerminalText::escapeLine($serverInfo['protocol_version'] ?? 'unknown'),
            TerminalText::escapeLine($serverInfo['transport']),
        );
    }
}
