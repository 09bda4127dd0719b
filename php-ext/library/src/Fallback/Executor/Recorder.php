<?php

declare(strict_types=1);

namespace Pillion\Fallback\Executor;

use Pillion\Event\ToolCallFinished;
use Pillion\Event\ToolCallStarted;
use Pillion\Fallback\Hooks;
use Pillion\Fallback\Http\Deadline;
use Pillion\Fallback\Json;
use Pillion\Fallback\Registry\Origin;
use Pillion\ToolCall;
use Pillion\ToolResult;

/**
 * Converts the outcome of a call to its result, with `execution_time`, and notifies the logger and the event
 * dispatcher. An exception from a listener ends the execution.
 *
 * @internal
 */
final class Recorder
{
    private readonly float $started;
    private readonly ?string $server;

    public function __construct(private readonly ToolCall $call, private readonly Hooks $hooks, ?Origin $origin)
    {
        $this->server = $origin === null || $origin->label !== '' ? $origin?->label : $origin->url;
        $hooks->dispatch(new ToolCallStarted($call->name, $call->id, $this->server));
        $this->started = Deadline::now();
    }

    public function succeeded(Output $output): ToolResult
    {
        return $this->told(new ToolResult(
            $this->call->id,
            $this->call->name,
            Json::arrays($output->result),
            data: Json::arrays($output->data),
            metadata: $this->timed($output->metadata),
        ));
    }

    public function failed(ToolFailure $failure): ToolResult
    {
        return $this->told(new ToolResult(
            $this->call->id,
            $this->call->name,
            $failure->result,
            false,
            $failure->getMessage(),
            $failure->errorCode,
            metadata: $this->timed($failure->metadata),
        ));
    }

    /**
     * @param array<string, mixed> $metadata
     *
     * @return array<string, mixed>
     */
    private function timed(array $metadata): array
    {
        return ['execution_time' => round(Deadline::now() - $this->started, 6)] + $metadata;
    }

    private function told(ToolResult $result): ToolResult
    {
        [$level, $what] = $result->success ? ['info', 'succeeded'] : ['warning', 'failed'];
        $seconds = $result->metadata['execution_time'];
        $this->hooks->note($level, "Tool call $what", [
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
