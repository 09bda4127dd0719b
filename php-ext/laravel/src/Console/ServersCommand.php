<?php

declare(strict_types=1);

namespace Pillion\Laravel\Console;

use Illuminate\Console\Command;
use Pillion\Laravel\Servers\ServerDirectory;
use Pillion\Laravel\SkippedEntries;

final class ServersCommand extends Command
{
    use RejectsEmptyOptions;

    protected $signature = 'pillion:servers {--json : Print JSON}';

    protected $description = 'List the configured MCP servers without contacting them';

    public function handle(ServerDirectory $servers, SkippedEntries $skipped): int
    {
        $rows = [];
        foreach ($servers->all() as $server) {
            $rows[] = [
                'name' => $server->name,
                'server' => $server->displayAddress(),
                'tools' => match (true) {
                    !$server->register => 'not offered',
                    $server->class !== null => $server->class,
                    default => $server->prefix . '*',
                },
                'approval' => $server->requireApproval,
            ];
        }
        foreach (array_diff($servers->names(), array_column($rows, 'name')) as $name) {
            $rows[] = ['name' => $name, 'server' => $skipped->reasons()[$name] ?? '', 'tools' => 'skipped', 'approval' => ''];
        }
        if ($this->option('json')) {
            $this->line(TerminalText::encodeJson($rows, JSON_PRETTY_PRINT));
        } elseif ($rows === []) {
            $this->info('No MCP servers are configured: see `servers` in config/pillion.php.');
        } else {
            $this->table(['Name', 'Server', 'Tools', 'Approval'], array_map(
                fn (array $row) => array_map([TerminalText::class, 'escapeLine'], $row),
                $rows,
            ));
        }
        return self::SUCCESS;
    }
}
