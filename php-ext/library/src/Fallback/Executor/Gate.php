<?php

declare(strict_types=1);

namespace Pillion\Fallback\Executor;

use Pillion\Fallback\Context;
use Pillion\Fallback\Json;
use Pillion\Fallback\Registry\Entry;
use Pillion\ToolCall;
use Pillion\ToolResult;

/**
 * Runs the `before` callable, the last check before a call runs.
 *
 * @internal
 */
final class Gate
{
    public function __construct(private readonly ?\Closure $before)
    {
    }

    /**
     * Returns null if the call may run, or an output that replaces the tool's output.
     *
     * @param ?string $approval the ID of the call's approval, if the call needed one
     *
     * @throws ToolFailure
     */
    public function enter(Entry $entry, \stdClass $arguments, ToolCall $call, Context $context, ?string $approval): ?Output
    {
        if ($this->before === null) {
            return null;
        }
        try {
            $answer = ($this->before)(
                new ToolCall($call->id, $entry->definition->name, Json::members($arguments)),
                $entry->definition,
                $context->shown($approval),
            );
            if ($answer === null || $answer instanceof ToolResult) {
                return $answer === null ? null : Output::of($answer);
            }
        } catch (\Throwable $thrown) {
            throw ToolFailure::of($thrown);
        }
        $type = get_debug_type($answer);
        throw new ToolFailure('internal_error', "The callable 'before' must return Pillion\\ToolResult or null, not $type");
    }
}
