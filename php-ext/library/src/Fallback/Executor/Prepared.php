<?php

declare(strict_types=1);

namespace Pillion\Fallback\Executor;

use Pillion\Fallback\Registry\Entry;
use Pillion\NativeTool;
use Pillion\ToolCall;

/**
 * A call that may run: its tool is there, its arguments are right, and no limit is in its way; or that
 * somebody else has answered.
 *
 * @internal
 */
final class Prepared
{
    public function __construct(
        public readonly ToolCall $call,
        public readonly Entry $entry,
        /** A tree, with the defaults filled in. */
        public readonly \stdClass $arguments,
        /** @var list<array-key> the names of those that the call has itself */
        private readonly array $given,
        public readonly float $timeout,
        /** What ends the call instead of the tool. */
        public readonly ?Output $answer = null,
    ) {
    }

    /** What the sidecar gets. What a built-in tool is not told it takes from the sidecar's configuration. */
    public function sentArguments(): \stdClass
    {
        if (!$this->entry->tool instanceof NativeTool) {
            return $this->arguments;
        }
        return (object) array_intersect_key(get_object_vars($this->arguments), array_flip($this->given));
    }
}
