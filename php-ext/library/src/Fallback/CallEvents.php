<?php

declare(strict_types=1);

namespace Pillion\Fallback;

use Pillion\Event\ToolCallFinished;
use Pillion\Event\ToolCallStarted;
use Pillion\Exception\PillionException;
use Pillion\Fallback\Http\Deadline;

/**
 * Dispatches the start event and the end event of a call, each exactly once.
 *
 * @internal
 */
final class CallEvents
{
    /** The start time; null before the call has started. */
    private ?float $startedAt = null;

    public function __construct(
        private readonly Hooks $hooks,
        private readonly string $toolName,
        private readonly string $callId,
        private readonly string $server,
    ) {
    }

    /**
     * Dispatches the start events of all calls, runs the calls, and dispatches the end event of
     * each call.
     *
     * @param array<int, self>              $calls
     * @param \Closure(): array<int, mixed> $run returns the outcome of each call: a result as a JSON tree, or an exception
     *
     * @return array<int, mixed> the outcomes
     *
     * @throws \Throwable an exception from `$run` or from a listener; the end event of each started
     *     call has been dispatched before the exception is thrown
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
            } catch (\Throwable $listenerException) {
                $exception ??= $listenerException;
            }
        }
        return isset($exception) ? throw $exception : $outcomes;
    }

    private function dispatchStart(): void
    {
        // The start time is set before the dispatch: if the dispatch fails, a listener may already
        // have received the event.
        $this->startedAt = Deadline::now();
        $this->hooks->dispatch(new ToolCallStarted($this->toolName, $this->callId, $this->server));
    }

    private function dispatchEnd(mixed $outcome): void
    {
        if ($this->startedAt === null) {
            return;
        }
        $errorCode = match (true) {
            $outcome instanceof PillionException => $outcome->errorCode,
            $outcome instanceof \Throwable, ($outcome->isError ?? false) === true => 'internal_error',
            default => null,
        };
        $seconds = Deadline::now() - $this->startedAt;
        $this->hooks->dispatch(new ToolCallFinished($this->toolName, $this->callId, $this->server, $errorCode === null, $errorCode, $seconds));
    }
}
