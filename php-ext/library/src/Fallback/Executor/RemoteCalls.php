<?php

declare(strict_types=1);

namespace Pillion\Fallback\Executor;

use Pillion\Exception\PillionException;
use Pillion\Exception\TimeoutException;
use Pillion\Fallback\Context;
use Pillion\Fallback\Json;
use Pillion\Fallback\Remote;
use Pillion\Fallback\SidecarApi;
use Pillion\Fallback\SocketPath;
use Pillion\ToolCall;
use Pillion\ToolResult;

/**
 * Calls of tools that the sidecar runs.
 *
 * @internal
 */
final class RemoteCalls
{
    /** Calls in one request; the sidecar takes 100 unless it is told otherwise. */
    private const MOST_AT_ONCE = 20;

    public function __construct(private readonly Options $options)
    {
    }

    /**
     * @param non-empty-array<int, Prepared> $calls by their place
     *
     * @return array<int, \Closure(): Output> by their place; each may throw a {@see ToolFailure}
     */
    public function run(array $calls, Context $context): array
    {
        $outcomes = [];
        foreach (array_chunk($calls, self::MOST_AT_ONCE, true) as $some) {
            $outcomes += $this->send($some, $context);
        }
        return $outcomes;
    }

    /**
     * @param non-empty-array<int, Prepared> $calls
     *
     * @return array<int, \Closure(): Output>
     */
    private function send(array $calls, Context $context): array
    {
        $rounds = ceil(count($calls) / $this->options->maxConcurrent);
        $timeout = $rounds * max(array_map(static fn (Prepared $call): float => $call->timeout, $calls));
        try {
            $asked = array_map(static fn (Prepared $call): ToolCall => new ToolCall(
                $call->call->id,
                (string) Remote::nameOf($call->entry->tool),
                Json::encode($call->arguments),
            ), $calls);
            $results = (new SidecarApi(SocketPath::default(), $timeout))->results(array_values($asked), 'parallel', $context);
        } catch (PillionException $e) {
            return array_map(static fn (Prepared $call): \Closure => static fn (): Output => throw (
                $e instanceof TimeoutException ? Pipeline::timedOut($call->entry, $call->timeout) : ToolFailure::of($e)
            ), $calls);
        }
        return array_map(
            static fn (ToolResult $result): \Closure => static fn (): Output => self::output($result),
            array_combine(array_keys($calls), $results),
        );
    }

    private static function output(ToolResult $result): Output
    {
        if (!$result->success) {
            $metadata = array_diff_key($result->metadata, ['execution_time' => 0]);
            throw new ToolFailure($result->errorCode ?? 'internal_error', $result->error ?? 'The tool failed', $result->result, $metadata);
        }
        return new Output(Json::tree($result->result), Json::tree($result->data), $result->metadata);
    }
}
