<?php

declare(strict_types=1);

namespace Pillion\Laravel\Execution;

use Pillion\ToolCall;
use Pillion\ToolDefinition;

/**
 * A call that {@see Admission} has admitted.
 *
 * @internal
 */
final class AdmittedCall
{
    private function __construct(
        public readonly string $id,
        public readonly string $tool,
        /** The SHA-256 hash of the call's ID, tool and arguments. */
        public readonly string $digest,
    ) {
    }

    /** @param ToolCall $call the call with the arguments that the tool would receive */
    public static function fromCall(ToolCall $call, ToolDefinition $definition): self
    {
        return new self($call->id, $definition->name, hash('sha256', serialize([$call->id, $definition->name, $call->arguments])));
    }

    /**
     * Returns the admitted calls whose ID and tool are in `$idsAndTools`.
     *
     * @param list<self>                  $admittedCalls
     * @param list<array{string, string}> $idsAndTools pairs of a call's ID and the name of its tool
     *
     * @return list<self>
     */
    public static function filter(array $admittedCalls, array $idsAndTools): array
    {
        return array_values(array_filter($admittedCalls, static fn (self $call): bool => in_array([$call->id, $call->tool], $idsAndTools, true)));
    }
}
