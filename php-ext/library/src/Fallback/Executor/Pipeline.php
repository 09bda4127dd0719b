<?php

declare(strict_types=1);

namespace Pillion\Fallback\Executor;

use Pillion\Fallback\Context;
use Pillion\Fallback\Hooks;
use Pillion\Fallback\Http\Deadline;
use Pillion\Fallback\Json;
use Pillion\Fallback\Registry\Entries;
use Pillion\Fallback\Registry\Entry;
use Pillion\Fallback\Remote;
use Pillion\ToolCall;
use Pillion\ToolResult;

/**
 * The stages of a call, in the same order as in the engine. Every call has exactly one result, and a failed
 * call does not affect other calls.
 *
 * @internal
 */
final class Pipeline
{
    /** Maximum length of an unknown name in an error message, in characters. */
    private const MAX_NAME_LEN = 128;

    private readonly RateLimiter $limiter;

    public function __construct(
        private readonly Entries $entries,
        private readonly Options $options,
        private readonly Hooks $hooks = new Hooks(),
    ) {
        $this->limiter = new RateLimiter($options);
    }

    /**
     * Runs calls one after the other.
     *
     * @param list<ToolCall> $calls
     *
     * @return list<ToolResult>
     */
    public function sequential(array $calls, Context $context): array
    {
        return array_map(fn (ToolCall $call): ToolResult => $this->parallel([$call], $context)[0], $calls);
    }

    /**
     * Runs PHP tools one after the other, then the sidecar's tools concurrently.
     *
     * @param list<ToolCall> $calls
     *
     * @return list<ToolResult> in the order of the calls
     */
    public function parallel(array $calls, Context $context): array
    {
        return Nesting::deeper(
            fn (): array => $this->run($calls, $context),
            // Listeners are not notified, because a listener might make another call.
            static fn (ToolFailure $failure): array => array_map(static fn (ToolCall $call): ToolResult => new ToolResult(
                $call->id,
                $call->name,
                null,
                false,
                $failure->getMessage(),
                $failure->errorCode,
                metadata: ['execution_time' => 0.0],
            ), $calls),
        );
    }

    /**
     * @param list<ToolCall> $calls
     *
     * @return list<ToolResult>
     */
    private function run(array $calls, Context $context): array
    {
        $results = $recorders = $local = $remote = [];
        foreach ($calls as $place => $call) {
            $recorders[$place] = new Recorder($call, $this->hooks, $this->entries->find($call->name)?->origin);
            try {
                $prepared = $this->prepare($call, $context);
            } catch (ToolFailure $failure) {
                $results[$place] = $recorders[$place]->failed($failure);
                continue;
            }
            if ($prepared->answer !== null) {
                $results[$place] = $this->record($recorders[$place], $call, fn (): Output => $prepared->answer);
            } elseif (Remote::nameOf($prepared->entry->tool) !== null) {
                $remote[$place] = $prepared;
            } else {
                $local[$place] = $prepared;
            }
        }
        foreach ($local as $place => $prepared) {
            $results[$place] = $this->record($recorders[$place], $prepared->call, fn (): Output => $this->runLocally($prepared));
        }
        $outcomes = $remote === [] ? [] : (new RemoteCalls($this->options))->run($remote, $context);
        foreach ($outcomes as $place => $outcome) {
            $results[$place] = $this->record($recorders[$place], $calls[$place], $outcome);
        }
        ksort($results);
        return $results;
    }

    /** @param \Closure(): Output $outcome */
    private function record(Recorder $recorder, ToolCall $call, \Closure $outcome): ToolResult
    {
        try {
            $output = $outcome()->cap($call->name, $this->options->maxOutputBytes);
        } catch (ToolFailure $failure) {
            return $recorder->failed($failure);
        }
        return $recorder->succeeded($output);
    }

    /** @throws ToolFailure */
    private function prepare(ToolCall $call, Context $context): Prepared
    {
        $entry = $this->entries->find($call->name) ?? throw new ToolFailure(
            'not_found',
            'Unknown tool: ' . (preg_match('/^.{0,' . self::MAX_NAME_LEN . '}/us', $call->name, $shown) === 1 ? $shown[0] : ''),
        );
        $arguments = self::arguments($call->arguments);
        $given = array_keys(get_object_vars($arguments));
        $wrong = $entry->schema?->validate($arguments, dropsNulls: true);
        if ($wrong !== null) {
            throw new ToolFailure('invalid_input', $wrong);
        }
        $means = fn (string $name): bool => $this->entries->find($name) === $entry;
        $approval = $this->options->approvals->pass($entry, $means, $arguments, $call, $context);
        $timeout = $this->options->timeoutOf($entry->definition->name);
        $answer = $this->options->gate->enter($entry, $arguments, $call, $context, $approval);
        if ($answer === null) {
            $this->limiter->admit($entry, $context->user);
        }
        return new Prepared($call, $entry, $arguments, $given, $timeout, $answer);
    }

    /**
     * Parses arguments given as a map or as a JSON string. Empty input means no arguments.
     *
     * @param array<array-key, mixed>|string $given
     *
     * @throws ToolFailure
     */
    private static function arguments(array|string $given): \stdClass
    {
        try {
            $tree = match (true) {
                is_array($given) => Json::tree($given),
                trim($given) === '' => null,
                default => Json::parse($given),
            };
        } catch (\JsonException $e) {
            throw new ToolFailure('invalid_input', "Invalid JSON in arguments: {$e->getMessage()}");
        }
        if ($tree === null || ($tree === [] && is_array($given))) {
            return new \stdClass();
        }
        return $tree instanceof \stdClass ? $tree : throw new ToolFailure('invalid_input', 'The arguments must be a JSON object');
    }

    /**
     * Runs a PHP tool. Plain PHP cannot stop a tool at its timeout: the call ends with `timeout` after the
     * tool has returned, and the tool's output is discarded.
     *
     * @throws ToolFailure
     */
    private function runLocally(Prepared $prepared): Output
    {
        $started = Deadline::now();
        try {
            $arguments = Json::arrays($prepared->arguments);
            $output = Output::of($prepared->entry->tool->execute($arguments, $prepared->call->id));
        } catch (\Throwable $thrown) {
            $failure = ToolFailure::of($thrown);
        }
        if (Deadline::now() - $started > $prepared->timeout) {
            throw self::timedOut($prepared->entry, $prepared->timeout);
        }
        return $output ?? throw $failure;
    }

    public static function timedOut(Entry $entry, float $seconds): ToolFailure
    {
        $server = ($entry->origin?->label ?? '') === '' ? '' : " of server '{$entry->origin->label}'";
        return new ToolFailure('timeout', "Tool '{$entry->definition->name}'$server timed out after " . Json::encode($seconds) . 's');
    }
}
