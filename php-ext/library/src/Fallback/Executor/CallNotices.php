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
 * Notifies the logger and the event dispatcher of the start and the end of calls.
 *
 * @internal
 */
final class CallNotices
{
    /** @var array<string, array{string, ?string, float}> tool, server and start time of the running calls by their IDs */
    private array $started = [];

    public function __construct(private readonly Hooks $hooks)
    {
    }

    public function start(string $tool, string $id, ?string $server): void
    {
        $this->started[$id] = [$tool, $server, Deadline::now()];
        $this->hooks->dispatch(new ToolCallStarted($tool, $id, $server));
    }

    public function finish(string $tool, string $id, ?string $server, ?string $errorCode, float $seconds): void
    {
        unset($this->started[$id]);
        [$level, $outcome] = $errorCode === null ? ['info', 'succeeded'] : ['warning', 'failed'];
        $this->hooks->logToLogger($level, "Tool call $outcome", [
            'tool' => $tool,
            'call_id' => $id,
            'server' => $server,
            'error_code' => $errorCode,
            'seconds' => $seconds,
        ]);
        $this->hooks->dispatch(new ToolCallFinished($tool, $id, $server, $errorCode === null, $errorCode, $seconds));
    }

    /** Notifies of the end of all running calls. Exceptions of listeners are dropped. */
    public function failStarted(string $errorCode): void
    {
        foreach ($this->started as $id => [$tool, $server, $start]) {
            try {
                $this->finish($tool, (string) $id, $server, $errorCode, Deadline::now() - $start);
            } catch (\Throwable) {
                // An exception of a listener is dropped: the caller gets the first exception.
            }
        }
    }

    /** Notifies of the end of a call that the sidecar did not run to its end. */
    public function fail(ToolCall $call, ?ToolOrigin $origin, string $errorCode): void
    {
        $server = $origin === null || $origin->label !== '' ? $origin?->label : $origin->url;
        if (!isset($this->started[$call->id])) {
            $this->start($call->name, $call->id, $server);
        }
        $this->finish($call->name, $call->id, $server, $errorCode, 0.0);
    }
}
