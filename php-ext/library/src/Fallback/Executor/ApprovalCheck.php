<?php

declare(strict_types=1);

namespace Pillion\Fallback\Executor;

use Pillion\Fallback\Context;
use Pillion\Fallback\InputSchema;
use Pillion\Fallback\Json;
use Pillion\Fallback\Registry\ToolEntry;
use Pillion\ToolCall;

/**
 * Decides which calls need approval, and obtains the approval.
 *
 * @internal
 */
final class ApprovalCheck
{
    public function __construct(private readonly ApprovalRules $rules, private readonly ?\Closure $approve)
    {
    }

    /**
     * Checks a call and returns the approval ID if the call needed an approval and has it. A denial takes
     * precedence over everything else; a decision in the context takes precedence over the `approve`
     * callable.
     *
     * @param callable(string): bool $isNamed whether a name is the tool's name or an alias
     *
     * @throws ToolFailure
     */
    public function check(ToolEntry $entry, callable $isNamed, \stdClass $arguments, ToolCall $call, Context $context): ?string
    {
        $isRequired = $this->rules->requiresApproval($entry, $isNamed);
        if (!$isRequired && $context->denied === []) {
            return null;
        }
        $id = self::approvalId($entry, $arguments, $context->user);
        $decision = match (true) {
            in_array($id, $context->denied, true) => false,
            !$isRequired, in_array($id, $context->approved, true) => true,
            default => $this->decide($id, $entry, $arguments, $call, $context),
        };
        if ($decision === true) {
            return $isRequired ? $id : null;
        }
        $state = $decision === false ? 'was denied' : 'needs approval';
        $metadata = ['approval_id' => $id];
        if ($decision === null) {
            // The later approver needs to see the arguments.
            $metadata['arguments'] = Json::memberArrays($arguments);
        }
        throw new ToolFailure(
            $decision === false ? 'denied' : 'approval_required',
            "The call to tool '{$entry->definition->name}' $state",
            metadata: $metadata,
        );
    }

    /** @throws ToolFailure */
    private function decide(string $id, ToolEntry $entry, \stdClass $arguments, ToolCall $call, Context $context): ?bool
    {
        if ($this->approve === null) {
            return null;
        }
        try {
            $decision = ($this->approve)(
                new ToolCall($call->id, $entry->definition->name, Json::memberArrays($arguments)),
                $entry->definition,
                $context->toArray($id),
            );
        } catch (\Throwable $exception) {
            throw ToolFailure::of($exception);
        }
        if ($decision !== null && !is_bool($decision)) {
            $type = get_debug_type($decision);
            throw new ToolFailure('internal_error', "The callable 'approve' must return bool or null, not $type");
        }
        return $decision;
    }

    /**
     * Returns the approval id of a call: SHA-256 of the tool, the arguments and the user as JSON, with the
     * keys of every object in byte order. The JSON also contains the tool's definition and the server's
     * address, so that an approval does not hold for a changed tool or another server.
     */
    private static function approvalId(ToolEntry $entry, \stdClass $arguments, ?string $user): string
    {
        return hash('sha256', self::canonicalJson((object) [
            'arguments' => $arguments,
            'definition' => [$entry->definition->description, InputSchema::tree($entry->definition)],
            'digest' => ($entry->origin?->url ?? '') === '' ? null : $entry->origin->url,
            'server' => $entry->origin?->label,
            'tool' => $entry->definition->name,
            'user' => $user,
        ]));
    }

    private static function canonicalJson(mixed $tree): string
    {
        if ($tree instanceof \stdClass) {
            $members = get_object_vars($tree);
            ksort($members, SORT_STRING);
            $entries = [];
            foreach ($members as $key => $value) {
                $entries[] = Json::encode((string) $key) . ':' . self::canonicalJson($value);
            }
            return '{' . implode(',', $entries) . '}';
        }
        if (is_array($tree)) {
            return '[' . implode(',', array_map(self::canonicalJson(...), $tree)) . ']';
        }
        return is_float($tree) ? str_replace('.0e', 'e', Json::encode($tree)) : Json::encode($tree);
    }
}
