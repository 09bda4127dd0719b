<?php

declare(strict_types=1);

namespace Pillion\Fallback\Executor;

use Pillion\Fallback\Registry\Entry;
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
        public readonly float $timeout,
        /** What ends the call instead of the tool. */
        public readonly ?Output $answer = null,
    ) {
    }
}
