<?php

declare(strict_types=1);

namespace Pillion\Fallback\Executor;

use Pillion\Fallback\Registry\ToolEntry;
use Pillion\NativeTool;
use Pillion\ToolCall;

/**
 * A call that passed all checks, or that the `before` callable has already answered.
 *
 * @internal
 */
final class PreparedCall
{
    public function __construct(
        public readonly ToolCall $call,
        public readonly ToolEntry $entry,
        /** The arguments as a tree, with defaults filled in. */
        public readonly \stdClass $arguments,
        /** @var list<array-key> the names of the arguments that the call itself contains */
        private readonly array $providedNames,
        public readonly float $timeout,
        /** The output that replaces the tool's output. */
        public readonly ?ToolOutput $replacement = null,
    ) {
    }

    /**
     * Returns the arguments for the sidecar. Built-in tools get no filled-in defaults, because the sidecar's
     * configuration may set its own.
     */
    public function sentArguments(): \stdClass
    {
        if (!$this->entry->tool instanceof NativeTool) {
            return $this->arguments;
        }
        return (object) array_intersect_key(get_object_vars($this->arguments), array_flip($this->providedNames));
    }
}
