<?php

declare(strict_types=1);

namespace Pillion\Fallback\Executor;

use Pillion\Exception\PillionException;
use Pillion\Exception\TimeoutException;
use Pillion\Fallback\CallResponse;
use Pillion\Fallback\Context;
use Pillion\Fallback\Json;
use Pillion\Fallback\SidecarApi;
use Pillion\Fallback\SidecarTools;
use Pillion\Fallback\SocketPath;

/**
 * Runs calls of the sidecar's tools concurrently.
 *
 * @internal
 */
final class RemoteCalls
{
    public function __construct(private readonly ExecutorOptions $options)
    {
    }

    /**
     * @param non-empty-array<int, PreparedCall> $calls by position
     *
     * @return array<int, \Closure(): ToolOutput> by position; each may throw a {@see ToolFailure}
     */
    public function run(array $calls, Context $context): array
    {
        $outcomes = [];
        foreach ($this->concurrentGroups($calls) as $group) {
            $requests = array_map(static fn (PreparedCall $call): array => [
                (string) SidecarTools::sidecarNameOf($call->entry->tool),
                Json::encode($call->sentArguments()),
                $call->timeout,
            ], $group);
            $api = new SidecarApi(SocketPath::default(), $this->options->timeout);
            foreach (self::send($api, $requests, $context) as $index => $response) {
                $outcomes[$index] = static fn (): ToolOutput => self::toOutput($calls[$index], $response);
            }
        }
        return $outcomes;
    }

    /**
     * Yields groups of calls that run concurrently. Calls of one tool keep their order. A call that has to wait
     * does not delay calls of other servers.
     *
     * @param array<int, PreparedCall> $calls
     *
     * @return iterable<non-empty-array<int, PreparedCall>>
     */
    private function concurrentGroups(array $calls): iterable
    {
        while ($calls !== []) {
            $group = $callsPerTool = $callsPerServer = [];
            foreach ($calls as $index => $call) {
                $tool = $call->entry->tool->getName();
                $server = $call->entry->origin?->label;
                $isFull = count($group) >= $this->options->maxConcurrentTotal
                    || ($callsPerTool[$tool] ?? 0) >= $this->options->concurrencyOf($tool)
                    || ($callsPerServer["$server"] ?? 0) >= $this->options->concurrencyOfServer($server);
                if (!$isFull) {
                    $group[$index] = $call;
                    $callsPerTool[$tool] = ($callsPerTool[$tool] ?? 0) + 1;
                    $callsPerServer["$server"] = ($callsPerServer["$server"] ?? 0) + 1;
                }
            }
            $calls = array_diff_key($calls, $group);
            yield $group;
        }
    }

    /**
     * @param array<int, array{string, string, float}> $requests
     *
     * @return array<int, CallResponse|PillionException>
     */
    private static function send(SidecarApi $api, array $requests, Context $context): array
    {
        try {
            return $api->executeAll($requests, $context);
        } catch (PillionException $e) {
            // The user or the channel contains characters that are not allowed in a header.
            return array_map(static fn (): PillionException => $e, $requests);
        }
    }

    /** @throws ToolFailure */
    private static function toOutput(PreparedCall $call, CallResponse|PillionException $response): ToolOutput
    {
        if ($response instanceof PillionException) {
            throw $response instanceof TimeoutException ? CallPipeline::timedOut($call->entry, $call->timeout) : ToolFailure::of($response);
        }
        $result = $response->toResult($call->call->id, $call->call->name);
        if (!$result->success) {
            $metadata = array_diff_key($result->metadata, ['execution_time' => 0]);
            throw new ToolFailure($result->errorCode ?? 'internal_error', $result->error ?? 'The tool failed', $result->result, $metadata);
        }
        return new ToolOutput(Json::toTree($result->result), Json::toTree($result->data), $result->metadata);
    }
}
