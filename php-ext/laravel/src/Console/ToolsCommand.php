<?php

declare(strict_types=1);

namespace Pillion\Laravel\Console;

use Illuminate\Console\Command;
use Pillion\Laravel\Models\ModelDirectory;
use Pillion\Laravel\PillionManager;
use Pillion\MCPToolInterface;
use Pillion\ToolInterface;

final class ToolsCommand extends Command
{
    use RejectsEmptyOptions;

    protected $signature = 'pillion:tools
        {--model= : Show which tools this model sees, and why it does not see the others}
        {--json : Print JSON}';

    protected $description = 'List the tools that models can call';

    public function handle(PillionManager $pillion, ModelDirectory $models): int
    {
        $model = $this->option('model');
        $dropped = $model === null ? [] : $pillion->registry()->getDroppedForModel($models->capabilities($model));
        $rows = $pillion->tools()->map(fn (ToolInterface $tool) => [
            'name' => $tool->getName(),
            'from' => self::origin($tool),
            'description' => $tool->getDefinition()->description,
        ] + ($model === null ? [] : ['visible' => $dropped[$tool->getName()] ?? 'yes']))->values()->all();

        if ($this->option('json')) {
            $this->line(TerminalText::encodeJson($rows, JSON_PRETTY_PRINT));
        } elseif ($rows === []) {
            $this->info('No tools are registered.');
        } else {
            $headers = ['Name', 'From', 'Description', ...($model === null ? [] : ['Visible'])];
            $this->table($headers, array_map(
                fn (array $row) => array_map(
                    [TerminalText::class, 'escapeLine'],
                    array_replace($row, ['description' => self::short($row['description'])]),
                ),
                $rows,
            ));
        }
        if ($model !== null && !in_array($model, $models->names(), true)) {
            $this->remark("Unknown model $model: the capabilities of pillion.default_model apply");
        }
        foreach ($pillion->skipped() as $server => $reason) {
            $this->remark("Skipped $server: $reason");
        }
        return self::SUCCESS;
    }

    /** Writes to standard error, so that standard output remains valid JSON. */
    private function remark(string $text): void
    {
        $this->getOutput()->getErrorStyle()->writeln('<comment>' . TerminalText::escapeLine($text) . '</comment>');
    }

    private static function origin(ToolInterface $tool): string
    {
        return $tool instanceof MCPToolInterface
            ? (string) ($tool->getMCPServerConfig()['server_label'] ?? 'mcp')
            : 'application';
    }

    private static function short(string $text): string
    {
        $line = trim((string) strtok($text, "\n"));
        return mb_strlen($line) > 60 ? mb_substr($line, 0, 59) . '…' : $line;
    }
}
