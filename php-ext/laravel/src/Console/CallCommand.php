<?php

declare(strict_types=1);

namespace Pillion\Laravel\Console;

use Illuminate\Console\Command;
use Pillion\Laravel\PillionManager;

final class CallCommand extends Command
{
    use RejectsEmptyOptions;

    protected $signature = 'pillion:call
        {tool : The name of the tool}
        {arguments? : A JSON object with the arguments}
        {--user= : The user for whom the tool runs}
        {--json : Print the complete result as JSON}';

    protected $description = 'Call a tool';

    public function handle(PillionManager $pillion): int
    {
        $arguments = json_decode((string) ($this->argument('arguments') ?? '{}'), true, 128);
        if (!is_array($arguments) || ($arguments !== [] && array_is_list($arguments))) {
            $this->error('The arguments must be a JSON object.');
            return self::INVALID;
        }
        $user = $this->option('user');
        $result = ($user === null ? $pillion : $pillion->forUser($user))->call($this->argument('tool'), $arguments);

        if ($this->option('json')) {
            $this->line(TerminalText::encodeJson($result->toArray(), JSON_PRETTY_PRINT));
        } elseif ($result->success) {
            $value = $result->result;
            $this->line(is_string($value) ? TerminalText::escape($value) : TerminalText::encodeJson($value, JSON_PRETTY_PRINT));
        } else {
            $this->error(TerminalText::escape("$result->error ($result->errorCode)"));
            if ($result->errorCode === 'approval_required') {
                $this->line('To approve the call: php artisan pillion:approvals approve ' . $result->metadata['approval_id']);
            }
        }
        return $result->success ? self::SUCCESS : self::FAILURE;
    }
}
