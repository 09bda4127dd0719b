<?php

declare(strict_types=1);

namespace Pillion\Fallback\Executor;

use Pillion\Event\ToolCallFinished;
use Pillion\Event\ToolCallStarted;
use Pillion\Fallback\Hooks;
use Pillion\Fallback\Http\Deadline;
use Pillion\Fallback\Registry\ToolOrigin;
use Pillion\ToolCall;

/**
 * Notifies the logger and the event dispatcher about the start and the end of calls.
 *
 * @internal
 */
final class CallNotices
{
    /** @var array<string, array{string, ?string, float}> tool, server and start time of the running calls by their IDs */
    private array $runningCalls = [];

    public function __construct(private readonly Hooks $hooks)
    {
    }

    public function start(string $toolName, string $callId, ?string $server): void
    {
        $this->runningCalls[$callId] = [$toolName, $server, Deadline::now()];
        $this->hooks->dispatch(new ToolCallStarted($toolName, $callId, $server));
    }

    public function finish(string $toolName, string $callId, ?string $server, ?string $errorCode, float $seconds): void
    {
        unset($this->runningCalls[$callId]);
        [$level, $outcome] = $errorCode === null ? ['info', 'succeeded'] : ['warning', 'failed'];
        $this->hooks->logToLogger($level, "Tool call $outcome", [
            'tool' => $toolName,
            'call_id' => $callId,
            'server' => $server,
            'error_code' => $errorCode,
            'seconds' => $seconds,
        ]);
        $this->hooks->dispatch(new ToolCallFinished($toolName, $callId, $server, $errorCode === null, $errorCode, $seconds));
    }

    /**
     * Notifies the listeners about the end of all running calls. Exceptions of listeners are
     * dropped.
     */
    public function failRunning(string $errorCode): void
    {
        foreach ($this->runningCalls as $callId => [$toolName, $server, $startedAt]) {
            try {
                $this->finish($toolName, (string) $callId, $server, $errorCode, Deadline::now() - $startedAt);
            } catch (\Throwable) {
                // Exceptions of further listeners are dropped, because the caller receives only the
                // exception of the first listener that failed.
            }
        }
    }

    /** Notifies the listeners about the end of a call that the sidecar did not finish. */
    public function fail(ToolCall $call, ?ToolOrigin $origin, string $errorCode): void
    {
        $server = $origin === null || $origin->label !== '' ? $origin?->label : $origin->url;
        if (!isset($this->runningCalls[$call->id])) {
            $this->start($call->name, $call->id, $server);
        }
        $this->finish($call->name, $call->id, $server, $errorCode, 0.0);
    }
}
