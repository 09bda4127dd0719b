<?php

declare(strict_types=1);

namespace Pillion\Fallback\Executor;

use Pillion\Fallback\Context;
use Pillion\Fallback\Json;
use Pillion\Fallback\Registry\ToolEntry;
use Pillion\ToolCall;
use Pillion\ToolResult;

/**
 * Runs the `before` callable, the last check before a call runs.
 *
 * @internal
 */
final class BeforeHook
{
    public function __construct(private readonly ?\Closure $before)
    {
    }

    /**
     * Returns null if the call may run, or an output that replaces the tool's output.
     *
     * @param ?string $approvalId the ID of the call's approval, if the call needed one
     *
     * @throws ToolFailure
     */
    public function run(ToolEntry $entry, \stdClass $arguments, ToolCall $call, Context $context, ?string $approvalId): ?ToolOutput
    {
        if ($this->before === null) {
            return null;
        }
        try {
            $output = ($this->before)(
                new ToolCall($call->id, $entry->definition->name, Json::memberArrays($arguments)),
                $entry->definition,
                $context->toArray($approvalId),
            );
            if ($output === null || $output instanceof ToolResult) {
                return $output === null ? null : ToolOutput::of($output);
            }
        } catch (\Throwable $exception) {
            throw ToolFailure::of($exception);
        }
        $type = get_debug_type($output);
        throw new ToolFailure('internal_error', "The callable 'before' must return Pillion\\ToolResult or null, not $type");
    }
}
