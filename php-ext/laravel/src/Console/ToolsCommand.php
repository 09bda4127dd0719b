<?php

declare(strict_types=1);

namespace Pillion\Laravel\Console;

use Illuminate\Console\Command;
use Illuminate\Contracts\Config\Repository;
use Pillion\Fallback\NearestKey;
use Pillion\Laravel\ConfigReader;
use Pillion\Laravel\Models\ModelDirectory;
use Pillion\Laravel\PillionManager;
use Pillion\MCPToolInterface;
use Pillion\ToolInterface;
use Pillion\ToolRegistry;

final class ToolsCommand extends Command
{
    use RejectsEmptyOptions;

    protected $signature = 'pillion:tools
        {--model= : Show which tools this model sees, and why it does not see the others}
        {--json : Print JSON}';

    protected $description = 'List the tools that models can call';

    public function handle(PillionManager $pillion, ModelDirectory $models, Repository $config): int
    {
        $model = $this->option('model');
        $dropReasons = $model === null ? [] : $pillion->registry()->getDroppedForModel($models->capabilities($model));
        $rows = $pillion->tools()->map(fn (ToolInterface $tool) => [
            'name' => $tool->getName(),
            'from' => self::describeOrigin($tool),
            'description' => $tool->getDefinition()->description,
        ] + ($model === null ? [] : ['visible' => $dropReasons[$tool->getName()] ?? 'yes']))->values()->all();

        if ($this->option('json')) {
            $this->line(TerminalText::encodeJson($rows, JSON_PRETTY_PRINT));
        } elseif ($rows === []) {
            $this->info('No tools are registered.');
        } else {
            $headers = ['Name', 'From', 'Description', ...($model === null ? [] : ['Visible'])];
            $this->table($headers, array_map(
                fn (array $row) => array_map(
                    [TerminalText::class, 'escapeLine'],
                    array_replace($row, ['description' => self::shorten($row['description'])]),
                ),
                $rows,
            ));
        }
        if ($model !== null && !in_array($model, $models->names(), true)) {
            $this->writeRemark("Unknown model $model: the capabilities of pillion.default_model apply");
        }
        foreach ($pillion->skipped() as $server => $reason) {
            $this->writeRemark("Skipped $server: $reason");
        }
        $this->reportMisspelledNames($config, $pillion->registry());
        return self::SUCCESS;
    }

    /**
     * Writes remarks about probably misspelled tool names in the settings. A setting may name a
     * tool that is not available at present, so such a name is not an error.
     */
    private function reportMisspelledNames(Repository $config, ToolRegistry $registry): void
    {
        $settings = [
            'approvals.tools' => array_keys(ConfigReader::readArray($config, 'approvals.tools')),
            'approvals.trusted_tools' => ConfigReader::readArray($config, 'approvals.trusted_tools'),
            'limits.tool_timeouts' => array_keys(ConfigReader::readArray($config, 'limits.tool_timeouts')),
            'limits.tool_concurrency' => array_keys(ConfigReader::readArray($config, 'limits.tool_concurrency')),
            'limits.rate_limits.tools' => array_keys(ConfigReader::readArray($config, 'limits.rate_limits.tools')),
        ];
        foreach ($settings as $key => $names) {
            foreach (array_map('strval', $names) as $name) {
                $nearestName = $registry->has($name) ? null : NearestKey::find($name, array_map('strval', array_keys($registry->getAll())));
                if ($nearestName !== null) {
                    $this->writeRemark("pillion.$key names the tool $name, which is unknown: did you mean $nearestName?");
                }
            }
        }
    }

    /** Writes a remark to standard error, so that standard output remains valid JSON. */
    private function writeRemark(string $text): void
    {
        $this->getOutput()->getErrorStyle()->writeln('<comment>' . TerminalText::escapeLine($text) . '</comment>');
    }

    private static function describeOrigin(ToolInterface $tool): string
    {
        return $tool instanceof MCPToolInterface
            ? (string) ($tool->getMCPServerConfig()['server_label'] ?? 'mcp')
            : 'application';
    }

    private static function shorten(string $text): string
    {
        $line = trim((string) strtok($text, "\n"));
        return mb_strlen($line) > 60 ? mb_substr($line, 0, 59) . '…' : $line;
    }
}
