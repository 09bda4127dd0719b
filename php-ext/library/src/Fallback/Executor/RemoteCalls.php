<?php

declare(strict_types=1);

namespace Pillion\Fallback\Executor;

use Pillion\Exception\PillionException;
use Pillion\Exception\TimeoutException;
use Pillion\Fallback\Answer;
use Pillion\Fallback\Context;
use Pillion\Fallback\Json;
use Pillion\Fallback\Remote;
use Pillion\Fallback\SidecarApi;
use Pillion\Fallback\SocketPath;

/**
 * Runs calls of the sidecar's tools concurrently.
 *
 * @internal
 */
final class RemoteCalls
{
    public function __construct(private readonly Options $options)
    {
    }

    /**
     * @param non-empty-array<int, Prepared> $calls by position
     *
     * @return array<int, \Closure(): Output> by position; each may throw a {@see ToolFailure}
     */
    public function run(array $calls, Context $context): array
    {
        $outcomes = [];
        foreach ($this->sideBySide($calls) as $some) {
            $asked = array_map(static fn (Prepared $call): array => [
                (string) Remote::nameOf($call->entry->tool),
                Json::encode($call->sentArguments()),
                $call->timeout,
            ], $some);
            $api = new SidecarApi(SocketPath::default(), $this->options->timeout);
            foreach (self::answers($api, $asked, $context) as $place => $answer) {
                $outcomes[$place] = static fn (): Output => self::output($calls[$place], $answer);
            }
        }
        return $outcomes;
    }

    /**
     * Yields groups of calls that run concurrently. Calls of one tool keep their order. A call that has to wait
     * does not delay calls of other servers.
     *
     * @param array<int, Prepared> $calls
     *
     * @return iterable<non-empty-array<int, Prepared>>
     */
    private function sideBySide(array $calls): iterable
    {
        while ($calls !== []) {
            $some = $ofTools = $ofServers = [];
            foreach ($calls as $place => $call) {
                $tool = $call->entry->tool->getName();
                $server = $call->entry->origin?->label;
                $isFull = count($some) >= $this->options->maxConcurrentTotal
                    || ($ofTools[$tool] ?? 0) >= $this->options->concurrencyOf($tool)
                    || ($ofServers["$server"] ?? 0) >= $this->options->concurrencyOfServer($server);
                if (!$isFull) {
                    $some[$place] = $call;
                    $ofTools[$tool] = ($ofTools[$tool] ?? 0) + 1;
                    $ofServers["$server"] = ($ofServers["$server"] ?? 0) + 1;
                }
            }
            $calls = array_diff_key($calls, $some);
            yield $some;
        }
    }

    /**
     * @param array<int, array{string, string, float}> $asked
     *
     * @return array<int, Answer|PillionException>
     */
    private static function answers(SidecarApi $api, array $asked, Context $context): array
    {
        try {
            return $api->executeAll($asked, $context);
        } catch (PillionException $e) {
            // The user or the channel contains characters that are not allowed in a header.
            return array_map(static fn (): PillionException => $e, $asked);
        }
    }

    /** @throws ToolFailure */
    private static function output(Prepared $call, Answer|PillionException $answer): Output
    {
        if ($answer instanceof PillionException) {
            throw $answer instanceof TimeoutException ? Pipeline::timedOut($call->entry, $call->timeout) : ToolFailure::of($answer);
        }
        $result = $answer->toResult($call->call->id, $call->call->name);
        if (!$result->success) {
            $metadata = array_diff_key($result->metadata, ['execution_time' => 0]);
            throw new ToolFailure($result->errorCode ?? 'internal_error', $result->error ?? 'The tool failed', $result->result, $metadata);
        }
        return new Output(Json::tree($result->result), Json::tree($result->data), $result->metadata);
    }
}
