<?php

declare(strict_types=1);

namespace Pillion\Fallback;

use Pillion\Event\ToolCallFinished;
use Pillion\Event\ToolCallStarted;
use Pillion\Exception\PillionException;
use Pillion\Fallback\Http\Deadline;

/**
 * Dispatches the events of a call: its start, and exactly once its end.
 *
 * @internal
 */
final class CallEvents
{
    /** The start time; null before the call has started. */
    private ?float $started = null;

    public function __construct(
        private readonly Hooks $hooks,
        private readonly string $tool,
        private readonly string $id,
        private readonly string $server,
    ) {
    }

    /**
     * Dispatches the start of all calls, runs them, and dispatches the end of each call.
     *
     * @param array<int, self>              $calls
     * @param \Closure(): array<int, mixed> $run returns the outcome of each call: a result as a tree, or an exception
     *
     * @return array<int, mixed> the outcomes
     *
     * @throws \Throwable an exception from `$run` or from a listener; the end of each started call has been dispatched by then
     */
    public static function dispatchAround(array $calls, \Closure $run): array
    {
        try {
            foreach ($calls as $call) {
                $call->dispatchStart();
            }
            $outcomes = $run();
        } catch (\Throwable $exception) {
            $outcomes = array_fill_keys(array_keys($calls), $exception);
        }
        foreach ($calls as $index => $call) {
            try {
                $call->dispatchEnd($outcomes[$index]);
            } catch (\Throwable $e) {
                $exception ??= $e;
            }
        }
        return isset($exception) ? throw $exception : $outcomes;
    }

    private function dispatchStart(): void
    {
        // The start time is set before the dispatch: if the dispatch fails, a listener may already
        // have received the event.
        $this->started = Deadline::now();
        $this->hooks->dispatch(new ToolCallStarted($this->tool, $this->id, $this->server));
    }

    private function dispatchEnd(mixed $outcome): void
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
