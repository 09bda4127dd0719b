<?php

declare(strict_types=1);

namespace Pillion\Fallback\Executor;

use Pillion\Event\ToolCallFinished;
use Pillion\Event\ToolCallStarted;
use Pillion\Fallback\Hooks;
use Pillion\Fallback\Http\Deadline;
use Pillion\Fallback\Json;
use Pillion\Fallback\Registry\ToolOrigin;
use Pillion\ToolCall;
use Pillion\ToolResult;

/**
 * Converts the outcome of a call to its result, with `execution_time`, and notifies the logger and the event
 * dispatcher. An exception from a listener ends the execution.
 *
 * @internal
 */
final class CallRecorder
{
    private readonly float $started;
    private readonly ?string $server;

    public function __construct(private readonly ToolCall $call, private readonly Hooks $hooks, ?ToolOrigin $origin)
    {
        $this->server = $origin === null || $origin->label !== '' ? $origin?->label : $origin->url;
        $hooks->dispatch(new ToolCallStarted($call->name, $call->id, $this->server));
        $this->started = Deadline::now();
    }

    public function succeeded(ToolOutput $output): ToolResult
    {
        return $this->notify(new ToolResult(
            $this->call->id,
            $this->call->name,
            Json::toArrays($output->result),
            data: Json::toArrays($output->data),
            metadata: $this->withExecutionTime($output->metadata),
        ));
    }

    public function failed(ToolFailure $failure): ToolResult
    {
        return $this->notify(new ToolResult(
            $this->call->id,
            $this->call->name,
            $failure->result,
            false,
            $failure->getMessage(),
            $failure->errorCode,
            metadata: $this->withExecutionTime($failure->metadata),
        ));
    }

    /**
     * @param array<string, mixed> $metadata
     *
     * @return array<string, mixed>
     */
    private function withExecutionTime(array $metadata): array
    {
        return ['execution_time' => round(Deadline::now() - $this->started, 6)] + $metadata;
    }

    private function notify(ToolResult $result): ToolResult
    {
        [$level, $outcome] = $result->success ? ['info', 'succeeded'] : ['warning', 'failed'];
        $seconds = $result->metadata['execution_time'];
        $this->hooks->logToLogger($level, "Tool call $outcome", [
            'tool' => $result->toolName,
            'call_id' => $result->toolCallId,
            'server' => $this->server,
            'error_code' => $result->errorCode,
            'seconds' => $seconds,
        ]);
        $this->hooks->dispatch(new ToolCallFinished(
            $result->toolName,
            $result->toolCallId,
            $this->server,
            $result->success,
            $result->errorCode,
            $seconds,
        ));
        return $result;
    }
}
