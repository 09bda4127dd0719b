<?php

declare(strict_types=1);

namespace Pillion\Laravel\Console;

use Illuminate\Console\Command;
use Pillion\Exception\InvalidInputException;
use Pillion\Exception\NotFoundException;
use Pillion\Laravel\Approvals\Approval;
use Pillion\Laravel\Approvals\Approvals;

final class ApprovalsCommand extends Command
{
    use RejectsEmptyOptions;

    protected $signature = 'pillion:approvals
        {action=list : list, show, approve, deny}
        {id? : The ID of the approval, or a unique prefix of it}
        {--tenant= : Use the approvals of this tenant}
        {--user= : List only the approvals of this user}
        {--by= : The name recorded as the approver; default: console}
        {--arguments= : With approve: the arguments with which the call runs instead of its own, as JSON or @FILE}
        {--json : Print JSON}';

    protected $description = 'List the calls that wait for approval; show, approve or deny one of them';

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
            $this->error(TerminalText::escapeLine("Unknown action '$action': use list, show, approve or deny."));
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
            $arguments = $this->approvedArguments();
            if ($arguments !== null && $action === 'deny') {
                throw new InvalidInputException('--arguments is only for approve');
            }
            $approval = $action === 'approve' ? $approvals->approve($id, $by, $arguments) : $approvals->deny($id, $by);
        } catch (NotFoundException | InvalidInputException $e) {
            $this->error(TerminalText::escapeLine($e->getMessage()));
            return self::FAILURE;
        }
        $arguments = TerminalText::encodeJson((object) ($approval->approvedArguments ?? $approval->arguments));
        $this->info(ucfirst($approval->status->value) . ': ' . TerminalText::escapeLine($approval->tool) . " $arguments");
        return self::SUCCESS;
    }

    /**
     * @return ?array<string, mixed>
     *
     * @throws InvalidInputException
     */
    private function approvedArguments(): ?array
    {
        $given = $this->option('arguments');
        if ($given === null) {
            return null;
        }
        $text = str_starts_with($given, '@') ? @file_get_contents(substr($given, 1)) : $given;
        $arguments = $text === false ? null : json_decode($text);
        if (!$arguments instanceof \stdClass) {
            throw new InvalidInputException('--arguments must be a JSON object, or @ and the name of a file with one');
        }
        return json_decode($text, true);
    }

    /** @param list<Approval> $pending */
    private function list(array $pending): int
    {
        if ($this->option('json')) {
            $this->line(TerminalText::encodeJson($pending, JSON_PRETTY_PRINT));
        } elseif ($pending === []) {
            $this->info('No calls wait for approval.');
        } else {
            $this->table(['Id', 'Tool', 'Arguments', 'User', 'Expires'], array_map(fn (Approval $approval) => [
                substr($approval->id, 0, 12),
                TerminalText::escapeLine($approval->tool),
                TerminalText::escapeLine(mb_strimwidth((string) json_encode((object) $approval->arguments), 0, 60, '…')),
                TerminalText::escapeLine($approval->user ?? ''),
                now()->setTimestamp($approval->expiresAt)->diffForHumans(),
            ], $pending));
        }
        return self::SUCCESS;
    }

    /** Shows the complete call of an approval, because the list truncates arguments. */
    private function show(?Approval $approval): int
    {
        if ($approval === null) {
            $this->error('The approval has expired.');
            return self::FAILURE;
        }
        if ($this->option('json')) {
            $this->line(TerminalText::encodeJson($approval, JSON_PRETTY_PRINT));
            return self::SUCCESS;
        }
        $this->line("Id:        $approval->id");
        $this->line('Tool:      ' . TerminalText::escapeLine($approval->tool));
        $this->line('User:      ' . TerminalText::escapeLine($approval->user ?? '(none)'));
        $this->line('Tenant:    ' . TerminalText::escapeLine($approval->tenant ?? '(none)'));
        $this->line('Expires:   ' . now()->setTimestamp($approval->expiresAt)->diffForHumans());
        $this->line('Arguments: ' . TerminalText::encodeJson((object) $approval->arguments, JSON_PRETTY_PRINT));
        return self::SUCCESS;
    }

    private function fullId(Approvals $approvals, string $prefix): ?string
    {
        $matching = array_values(array_filter(
            $approvals->pending(),
            fn (Approval $approval) => $prefix !== '' && str_starts_with($approval->id, $prefix),
        ));
        if (count($matching) === 1) {
            return $matching[0]->id;
        }
        $this->error(match (true) {
            $prefix === '' => 'Name the approval: its ID, or the beginning of its ID.',
            $matching === [] => TerminalText::escapeLine("No pending approval begins with '$prefix'."),
            default => TerminalText::escapeLine("Several approvals begin with '$prefix': use a longer prefix."),
        });
        return null;
    }
}
