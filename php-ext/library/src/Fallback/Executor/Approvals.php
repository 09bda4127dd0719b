<?php

declare(strict_types=1);

namespace Pillion\Fallback\Executor;

use Pillion\Fallback\Context;
use Pillion\Fallback\InputSchema;
use Pillion\Fallback\Json;
use Pillion\Fallback\Registry\Entry;
use Pillion\ToolCall;

/**
 * Decides which calls need approval, and obtains the approval.
 *
 * @internal
 */
final class Approvals
{
    public function __construct(private readonly ApprovalRules $rules, private readonly ?\Closure $approve)
    {
    }

    /**
     * Checks a call and returns the approval ID if the call needed an approval and has it. A denial takes
     * precedence over everything else; a decision in the context takes precedence over the `approve`
     * callable.
     *
     * @param callable(string): bool $means whether a name is the tool's name or an alias
     *
     * @throws ToolFailure
     */
    public function pass(Entry $entry, callable $means, \stdClass $arguments, ToolCall $call, Context $context): ?string
    {
        $asks = $this->rules->asks($entry, $means);
        if (!$asks && $context->denied === []) {
            return null;
        }
        $id = self::id($entry, $arguments, $context->user);
        $decision = match (true) {
            in_array($id, $context->denied, true) => false,
            !$asks, in_array($id, $context->approved, true) => true,
            default => $this->decide($id, $entry, $arguments, $call, $context),
        };
        if ($decision === true) {
            return $asks ? $id : null;
        }
        $what = $decision === false ? 'was denied' : 'needs approval';
        $metadata = ['approval_id' => $id];
        if ($decision === null) {
            // The later approver needs to see the arguments.
            $metadata['arguments'] = Json::members($arguments);
        }
        throw new ToolFailure(
            $decision === false ? 'denied' : 'approval_required',
            "The call to tool '{$entry->definition->name}' $what",
            metadata: $metadata,
        );
    }

    /** @throws ToolFailure */
    private function decide(string $id, Entry $entry, \stdClass $arguments, ToolCall $call, Context $context): ?bool
    {
        if ($this->approve === null) {
            return null;
        }
        try {
            $answer = ($this->approve)(
                new ToolCall($call->id, $entry->definition->name, Json::members($arguments)),
                $entry->definition,
                $context->shown($id),
            );
        } catch (\Throwable $thrown) {
            throw ToolFailure::of($thrown);
        }
        if ($answer !== null && !is_bool($answer)) {
            $type = get_debug_type($answer);
            throw new ToolFailure('internal_error', "The callable 'approve' must return bool or null, not $type");
        }
        return $answer;
    }

    /**
     * Returns the approval id of a call: SHA-256 of the tool, the arguments and the user as JSON, with the
     * keys of every object in byte order. The JSON also contains the tool's definition and the server's
     * address, so that an approval does not hold for a changed tool or another server.
     */
    private static function id(Entry $entry, \stdClass $arguments, ?string $user): string
    {
        return hash('sha256', self::canonical((object) [
            'arguments' => $arguments,
            'definition' => [$entry->definition->description, InputSchema::tree($entry->definition)],
            'digest' => ($entry->origin?->url ?? '') === '' ? null : $entry->origin->url,
            'server' => $entry->origin?->label,
            'tool' => $entry->definition->name,
            'user' => $user,
        ]));
    }

    private static function canonical(mixed $tree): string
    {
        if ($tree instanceof \stdClass) {
            $members = get_object_vars($tree);
            ksort($members, SORT_STRING);
            $entries = [];
            foreach ($members as $key => $value) {
                $entries[] = Json::encode((string) $key) . ':' . self::canonical($value);
            }
            return '{' . implode(',', $entries) . '}';
        }
        if (is_array($tree)) {
            return '[' . implode(',', array_map(self::canonical(...), $tree)) . ']';
        }
        return is_float($tree) ? str_replace('.0e', 'e', Json::encode($tree)) : Json::encode($tree);
    }
}
