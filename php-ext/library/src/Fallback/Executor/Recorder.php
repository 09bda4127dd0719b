<?php

declare(strict_types=1);

namespace Pillion\Fallback\Executor;

use Pillion\Fallback\Http\Deadline;
use Pillion\Fallback\Json;
use Pillion\ToolCall;
use Pillion\ToolResult;

/**
 * Turns the outcome of a call into its one result, with its `execution_time` (requirement C4).
 *
 * @internal
 */
final class Recorder
{
    private readonly float $started;

    public function __construct(private readonly ToolCall $call)
    {
        $this->started = Deadline::now();
    }

    public function succeeded(Output $output): ToolResult
    {
        return new ToolResult(
            $this->call->id,
            $this->call->name,
            Json::arrays($output->result),
            data: Json::arrays($output->data),
            metadata: $this->timed($output->metadata),
        );
    }

    public function failed(ToolFailure $failure): ToolResult
    {
        return new ToolResult(
            $this->call->id,
            $this->call->name,
            $failure->result,
            false,
            $failure->getMessage(),
            $failure->errorCode,
            metadata: $this->timed($failure->metadata),
        );
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
}
