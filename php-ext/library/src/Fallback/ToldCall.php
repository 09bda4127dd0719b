<?php

declare(strict_types=1);

namespace Pillion\Fallback;

use Pillion\Event\ToolCallFinished;
use Pillion\Event\ToolCallStarted;
use Pillion\Exception\PillionException;
use Pillion\Fallback\Http\Deadline;

/**
 * What a dispatcher hears of a call: that it begins, and exactly once how it has ended.
 *
 * @internal
 */
final class ToldCall
{
    /** Null before it has begun. */
    private ?float $started = null;

    public function __construct(
        private readonly Hooks $hooks,
        private readonly string $tool,
        private readonly string $id,
        private readonly string $server,
    ) {
    }

    /**
     * Tells that calls begin, makes them, and tells how each has ended.
     *
     * @param array<int, self>           $calls
     * @param \Closure(): array<int, mixed> $work gives an outcome for each: a result as a tree, or an exception
     *
     * @return array<int, mixed> the outcomes
     *
     * @throws \Throwable what `$work` or a listener throws; each call that has begun has ended then, too
     */
    public static function all(array $calls, \Closure $work): array
    {
        try {
            foreach ($calls as $call) {
                $call->begin();
            }
            $outcomes = $work();
        } catch (\Throwable $thrown) {
            $outcomes = array_fill_keys(array_keys($calls), $thrown);
        }
        foreach ($calls as $place => $call) {
            try {
                $call->end($outcomes[$place]);
            } catch (\Throwable $e) {
                $thrown ??= $e;
            }
        }
        return isset($thrown) ? throw $thrown : $outcomes;
    }

    private function begin(): void
    {
        // Also where this fails some listener may have heard it.
        $this->started = Deadline::now();
        $this->hooks->dispatch(new ToolCallStarted($this->tool, $this->id, $this->server));
    }

    private function end(mixed $outcome): void
    {
        if ($this->started === null) {
            return;
        }
        $code = match (true) {
            $outcome instanceof PillionException => $outcome->errorCode,
            $outcome instanceof \Throwable, ($outcome->isError ?? false) === true => 'internal_error',
            default => null,
        };
        $seconds = Deadline::now() - $this->started;
        $this->hooks->dispatch(new ToolCallFinished($this->tool, $this->id, $this->server, $code === null, $code, $seconds));
    }
}
