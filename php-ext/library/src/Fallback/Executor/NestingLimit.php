<?php

declare(strict_types=1);

namespace Pillion\Fallback\Executor;

/**
 * Limits how deep executions nest. Executions nest when a tool, or a callable such as `approve`,
 * makes calls itself. Each fiber has its own stack and is counted separately.
 *
 * @internal
 */
final class NestingLimit
{
    /**
     * The maximum nesting depth. The extension has the same limit, because deeper nesting could
     * overflow its C stack.
     */
    private const MAX_LEVELS = 64;

    /** The current nesting level of code that does not run in a fiber. */
    private static int $mainLevel = 0;

    /** @var ?\WeakMap<\Fiber, int> the nesting level in each fiber */
    private static ?\WeakMap $fiberLevels = null;

    /**
     * Runs `$run` one nesting level deeper. Runs `$onLimit` instead if the maximum depth is
     * reached.
     *
     * @template T
     *
     * @param \Closure(bool): T $run receives true if this call of the method is nested in another
     *     call of the method
     * @param \Closure(ToolFailure): T $onLimit
     *
     * @return T
     */
    public static function runNested(\Closure $run, \Closure $onLimit): mixed
    {
        $fiber = \Fiber::getCurrent();
        $level = self::currentLevel($fiber);
        if ($level >= self::MAX_LEVELS) {
            return $onLimit(new ToolFailure(
                'internal_error',
                'Calls nest deeper than ' . self::MAX_LEVELS . " levels: a tool, or a callable such as 'approve', makes calls that lead back to itself",
            ));
        }
        self::setLevel($fiber, $level + 1);
        try {
            return $run($level > 0);
        } finally {
            self::setLevel($fiber, $level);
        }
    }

    private static function currentLevel(?\Fiber $fiber): int
    {
        return $fiber === null ? self::$mainLevel : self::$fiberLevels[$fiber] ?? 0;
    }

    private static function setLevel(?\Fiber $fiber, int $level): void
    {
        if ($fiber === null) {
            self::$mainLevel = $level;
            return;
        }
        self::$fiberLevels ??= new \WeakMap();
        self::$fiberLevels[$fiber] = $level;
    }
}
