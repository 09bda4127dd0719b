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
            return $this->printList($user === null ? $approvals->pending() : $approvals->pendingFor($user));
        }
        if (!in_array($action, ['show', 'approve', 'deny'], true)) {
            $this->error(TerminalText::escapeLine("Unknown action '$action': use list, show, approve or deny."));
            return self::INVALID;
        }
        $id = $this->findFullId($approvals, (string) $this->argument('id'));
        if ($id === null) {
            return self::FAILURE;
        }
        if ($action === 'show') {
            return $this->printApproval($approvals->find($id));
        }
        $approver = $this->option('by') ?? 'console';
        try {
            $arguments = $this->readApprovedArguments();
            if ($arguments !== null && $action === 'deny') {
                throw new InvalidInputException('--arguments can only be used with the action approve');
            }
            $approval = $action === 'approve' ? $approvals->approve($id, $approver, $arguments) : $approvals->deny($id, $approver);
        } catch (NotFoundException | InvalidInputException $exception) {
            $this->error(TerminalText::escapeLine($exception->getMessage()));
            return self::FAILURE;
        }
        $finalArguments = TerminalText::encodeJson((object) ($approval->approvedArguments ?? $approval->arguments));
        $this->info(ucfirst($approval->status->value) . ': ' . TerminalText::escapeLine($approval->tool) . " $finalArguments");
        return self::SUCCESS;
    }

    /**
     * @return ?array<string, mixed>
     *
     * @throws InvalidInputException
     */
    private function readApprovedArguments(): ?array
    {
        $option = $this->option('arguments');
        if ($option === null) {
            return null;
        }
        $json = str_starts_with($option, '@') ? @file_get_contents(substr($option, 1)) : $option;
        $tree = $json === false ? null : json_decode($json);
        if (!$tree instanceof \stdClass) {
            throw new InvalidInputException('--arguments must be a JSON object, or @ and the name of a file with one');
        }
        return json_decode($json, true);
    }

    /** @param list<Approval> $pendingApprovals */
    private function printList(array $pendingApprovals): int
    {
        if ($this->option('json')) {
            $this->line(TerminalText::encodeJson($pendingApprovals, JSON_PRETTY_PRINT));
        } elseif ($pendingApprovals === []) {
            $this->info('No calls wait for approval.');
        } else {
            $this->table(['Id', 'Tool', 'Arguments', 'User', 'Expires'], array_map(fn (Approval $approval) => [
                substr($approval->id, 0, 12),
                TerminalText::escapeLine($approval->tool),
                TerminalText::escapeLine(mb_strimwidth((string) json_encode((object) $approval->arguments), 0, 60, '…')),
                TerminalText::escapeLine($approval->user ?? ''),
                now()->setTimestamp($approval->expiresAt)->diffForHumans(),
            ], $pendingApprovals));
        }
        return self::SUCCESS;
    }

    /**
     * Shows the complete call that an approval belongs to, because the list of approvals truncates
     * arguments.
     */
    private function printApproval(?Approval $approval): int
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

    private function findFullId(Approvals $approvals, string $prefix): ?string
    {
        $matchingApprovals = array_values(array_filter(
            $approvals->pending(),
            fn (Approval $approval) => $prefix !== '' && str_starts_with($approval->id, $prefix),
        ));
        if (count($matchingApprovals) === 1) {
            return $matchingApprovals[0]->id;
        }
        $this->error(match (true) {
            $prefix === '' => 'Pass the ID of an approval, or the beginning of the ID.',
            $matchingApprovals === [] => TerminalText::escapeLine("No pending approval begins with '$prefix'."),
            default => TerminalText::escapeLine("Several approvals begin with '$prefix': use a longer prefix."),
        });
        return null;
    }
}
