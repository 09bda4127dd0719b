<?php

declare(strict_types=1);

namespace Pillion\Fallback\Executor;

/**
 * Limits how deep executions nest: a tool, or a callable such as `approve`, may make calls itself.
 * Each fiber has its own stack and is counted separately.
 *
 * @internal
 */
final class NestingLimit
{
    /** The extension has the same limit, which is close to the end of its C stack. */
    private const MAX_LEVELS = 64;

    private static int $level = 0;

    /** @var ?\WeakMap<\Fiber, int> */
    private static ?\WeakMap $inFibers = null;

    /**
     * Runs a callable one level deeper, or `$onLimit` when the maximum depth is reached.
     *
     * @template T
     *
     * @param \Closure(bool): T        $run     receives whether the code that calls this method runs inside another callable
     * @param \Closure(ToolFailure): T $onLimit
     *
     * @return T
     */
    public static function enter(\Closure $run, \Closure $onLimit): mixed
    {
        $fiber = \Fiber::getCurrent();
        $level = self::level($fiber);
        if ($level >= self::MAX_LEVELS) {
            return $onLimit(new ToolFailure(
                'internal_error',
                'Calls nest deeper than ' . self::MAX_LEVELS . " levels: a tool, or a callable such as 'approve', makes calls that lead back to itself",
            ));
        }
        self::set($fiber, $level + 1);
        try {
            return $run($level > 0);
        } finally {
            self::set($fiber, $level);
        }
    }

    private static function level(?\Fiber $fiber): int
    {
        return $fiber === null ? self::$level : self::$inFibers[$fiber] ?? 0;
    }

    private static function set(?\Fiber $fiber, int $level): void
    {
        if ($fiber === null) {
            self::$level = $level;
            return;
        }
        self::$inFibers ??= new \WeakMap();
        self::$inFibers[$fiber] = $level;
    }
}
