<?php

declare(strict_types=1);

namespace Pillion\Laravel\Console;

use Illuminate\Console\Command;
use Pillion\Exception\NotFoundException;
use Pillion\Laravel\Approvals\Approval;
use Pillion\Laravel\Approvals\Approvals;

final class ApprovalsCommand extends Command
{
    protected $signature = 'pillion:approvals
        {action=list : list, show, approve, deny}
        {id? : The approval, or the beginning of its id}
        {--tenant= : Those of one tenant}
        {--user= : List those of one user}
        {--by= : Who decides}
        {--json : As JSON}';

    protected $description = 'List the calls that wait for approval, show, approve or deny one';

    public function handle(Approvals $approvals): int
    {
        if ($this->option('tenant') !== null) {
            $approvals = $approvals->forTenant($this->option('tenant'));
        }
        $action = $this->argument('action');
        if ($action === 'list') {
            $user = $this->option('user');
            return $this->list($user === null ? $approvals->pending() : $approvals->pendingFor($user));
        }
        if (!in_array($action, ['show', 'approve', 'deny'], true)) {
            $this->error(Shown::line("The action is list, show, approve or deny, not '$action'."));
            return self::INVALID;
        }
        $id = $this->fullId($approvals, (string) $this->argument('id'));
        if ($id === null) {
            return self::FAILURE;
        }
        if ($action === 'show') {
            return $this->show($approvals->find($id));
        }
        $by = $this->option('by') ?? 'console';
        try {
            $approval = $action === 'approve' ? $approvals->approve($id, $by) : $approvals->deny($id, $by);
        } catch (NotFoundException $e) {
            $this->error(Shown::line($e->getMessage()));
            return self::FAILURE;
        }
        $arguments = Shown::json((object) $approval->arguments);
        $this->info(ucfirst($approval->status->value) . ': ' . Shown::line($approval->tool) . " $arguments");
        return self::SUCCESS;
    }

    /** @param list<Approval> $pending */
    private function list(array $pending): int
    {
        if ($this->option('json')) {
            $this->line(Shown::json($pending, JSON_PRETTY_PRINT));
        } elseif ($pending === []) {
            $this->info('No call waits for approval.');
        } else {
            $this->table(['Id', 'Tool', 'Arguments', 'User', 'Expires'], array_map(fn (Approval $approval) => [
                substr($approval->id, 0, 12),
                Shown::line($approval->tool),
                Shown::line(mb_strimwidth((string) json_encode((object) $approval->arguments), 0, 60, '…')),
                Shown::line($approval->user ?? ''),
                now()->setTimestamp($approval->expiresAt)->diffForHumans(),
            ], $pending));
        }
        return self::SUCCESS;
    }

    /** Shows the complete call: the list truncates its arguments. */
    private function show(?Approval $approval): int
    {
        if ($approval === null) {
            $this->error('It has expired.');
            return self::FAILURE;
        }
        if ($this->option('json')) {
            $this->line(Shown::json($approval, JSON_PRETTY_PRINT));
            return self::SUCCESS;
        }
        $this->line("Id:        $approval->id");
        $this->line('Tool:      ' . Shown::line($approval->tool));
        $this->line('User:      ' . Shown::line($approval->user ?? '(nobody)'));
        $this->line('Tenant:    ' . Shown::line($approval->tenant ?? '(none)'));
        $this->line('Expires:   ' . now()->setTimestamp($approval->expiresAt)->diffForHumans());
        $this->line('Arguments: ' . Shown::json((object) $approval->arguments, JSON_PRETTY_PRINT));
        return self::SUCCESS;
    }

    private function fullId(Approvals $approvals, string $start): ?string
    {
        $matching = array_values(array_filter(
            $approvals->pending(),
            fn (Approval $approval) => $start !== '' && str_starts_with($approval->id, $start),
        ));
        if (count($matching) === 1) {
            return $matching[0]->id;
        }
        $this->error(match (true) {
            $start === '' => 'Say which: the id, or its beginning.',
            $matching === [] => Shown::line("No approval '$start' is pending: it is unknown, decided or expired."),
            default => Shown::line("'$start' begins several ids: write more of it."),
        });
        return null;
    }
}
