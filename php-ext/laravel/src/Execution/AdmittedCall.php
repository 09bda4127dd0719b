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
        /** SHA-256 of the ID, the tool and the arguments. */
        public readonly string $digest,
    ) {
    }

    /** @param ToolCall $call the call with the arguments that the tool would receive */
    public static function fromCall(ToolCall $call, ToolDefinition $definition): self
    {
        return new self($call->id, $definition->name, hash('sha256', serialize([$call->id, $definition->name, $call->arguments])));
    }

    /**
     * Returns the passed calls whose ID and tool are among the given calls.
     *
     * @param list<self>                  $admitted
     * @param list<array{string, string}> $calls the IDs and the tool names
     *
     * @return list<self>
     */
    public static function filter(array $admitted, array $calls): array
    {
        return array_values(array_filter($admitted, static fn (self $call): bool => in_array([$call->id, $call->tool], $calls, true)));
    }
}
