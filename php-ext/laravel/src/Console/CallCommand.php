<?php

declare(strict_types=1);

namespace Pillion\Laravel\Console;

use Illuminate\Console\Command;
use Pillion\Laravel\PillionManager;

final class CallCommand extends Command
{
    protected $signature = 'pillion:call
        {tool : Its name}
        {arguments? : A JSON object with the arguments}
        {--user= : For whom}
        {--json : The whole result, as JSON}';

    protected $description = 'Call a tool';

    public function handle(PillionManager $pillion): int
    {
        $arguments = json_decode((string) ($this->argument('arguments') ?? '{}'), true, 128);
        if (!is_array($arguments) || ($arguments !== [] && array_is_list($arguments))) {
            $this->error('The arguments are no JSON object.');
            return self::INVALID;
        }
        $user = $this->option('user');
        $result = ($user === null ? $pillion : $pillion->forUser($user))->call($this->argument('tool'), $arguments);

        $flags = JSON_PRETTY_PRINT | JSON_UNESCAPED_SLASHES | JSON_UNESCAPED_UNICODE;
        if ($this->option('json')) {
            $this->line((string) json_encode($result->toArray(), $flags));
        } elseif ($result->success) {
            $this->line(is_string($result->result) ? $result->result : (string) json_encode($result->result, $flags));
        } else {
            $this->error("$result->error ($result->errorCode)");
            if ($result->errorCode === 'approval_required') {
                $this->line('To allow it: php artisan pillion:approvals approve ' . $result->metadata['approval_id']);
            }
        }
        return $result->success ? self::SUCCESS : self::FAILURE;
    }
}
