<?php

declare(strict_types=1);

namespace Pillion\Fallback\Executor;

use Pillion\Fallback\Context;
use Pillion\Fallback\Hooks;
use Pillion\Fallback\Http\Deadline;
use Pillion\Fallback\Json;
use Pillion\Fallback\Registry\ToolEntries;
use Pillion\Fallback\Registry\ToolEntry;
use Pillion\Fallback\SidecarTools;
use Pillion\ToolCall;
use Pillion\ToolResult;

/**
 * The stages of a call, in the same order as in the engine. Every call has exactly one result, and a failed
 * call does not affect other calls.
 *
 * @internal
 */
final class CallPipeline
{
    /** Maximum length of an unknown name in an error message, in characters. */
    private const MAX_NAME_LEN = 128;

    private readonly RateLimiter $limiter;

    public function __construct(
        private readonly ToolEntries $entries,
        private readonly ExecutorOptions $options,
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
        return NestingLimit::enter(
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
        foreach ($calls as $index => $call) {
            $recorders[$index] = new CallRecorder($call, $this->hooks, $this->entries->find($call->name)?->origin);
            try {
                $prepared = $this->prepare($call, $context);
            } catch (ToolFailure $failure) {
                $results[$index] = $recorders[$index]->failed($failure);
                continue;
            }
            if ($prepared->replacement !== null) {
                $results[$index] = $this->record($recorders[$index], $call, fn (): ToolOutput => $prepared->replacement);
            } elseif (SidecarTools::sidecarNameOf($prepared->entry->tool) !== null) {
                $remote[$index] = $prepared;
            } else {
                $local[$index] = $prepared;
            }
        }
        foreach ($local as $index => $prepared) {
            $results[$index] = $this->record($recorders[$index], $prepared->call, fn (): ToolOutput => $this->runLocally($prepared));
        }
        $outcomes = $remote === [] ? [] : (new RemoteCalls($this->options))->run($remote, $context);
        foreach ($outcomes as $index => $outcome) {
            $results[$index] = $this->record($recorders[$index], $calls[$index], $outcome);
        }
        ksort($results);
        return $results;
    }

    /** @param \Closure(): ToolOutput $outcome */
    private function record(CallRecorder $recorder, ToolCall $call, \Closure $outcome): ToolResult
    {
        try {
            $output = $outcome()->checkSize($call->name, $this->options->maxOutputBytes);
        } catch (ToolFailure $failure) {
            return $recorder->failed($failure);
        }
        return $recorder->succeeded($output);
    }

    /** @throws ToolFailure */
    private function prepare(ToolCall $call, Context $context): PreparedCall
    {
        $entry = $this->entries->find($call->name) ?? throw new ToolFailure(
            'not_found',
            'Unknown tool: ' . (preg_match('/^.{0,' . self::MAX_NAME_LEN . '}/us', $call->name, $matches) === 1 ? $matches[0] : ''),
        );
        $arguments = self::arguments($call->arguments);
        $providedNames = array_keys(get_object_vars($arguments));
        $violation = $entry->schema?->validate($arguments, dropsNulls: true);
        if ($violation !== null) {
            throw new ToolFailure('invalid_input', $violation);
        }
        $isNamed = fn (string $name): bool => $this->entries->find($name) === $entry;
        $approval = $this->options->approvals->check($entry, $isNamed, $arguments, $call, $context);
        $timeout = $this->options->timeoutOf($entry->definition->name);
        $replacement = $this->options->beforeHook->run($entry, $arguments, $call, $context, $approval);
        if ($replacement === null) {
            $this->limiter->admit($entry, $context->user);
        }
        return new PreparedCall($call, $entry, $arguments, $providedNames, $timeout, $replacement);
    }

    /**
     * Parses arguments given as a map or as a JSON string. Empty input means no arguments.
     *
     * @param array<array-key, mixed>|string $arguments
     *
     * @throws ToolFailure
     */
    private static function arguments(array|string $arguments): \stdClass
    {
        try {
            $tree = match (true) {
                is_array($arguments) => Json::toTree($arguments),
                trim($arguments) === '' => null,
                default => Json::parse($arguments),
            };
        } catch (\JsonException $e) {
            throw new ToolFailure('invalid_input', "Invalid JSON in arguments: {$e->getMessage()}");
        }
        if ($tree === null || ($tree === [] && is_array($arguments))) {
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
    private function runLocally(PreparedCall $prepared): ToolOutput
    {
        $started = Deadline::now();
        try {
            $arguments = Json::toArrays($prepared->arguments);
            $output = ToolOutput::of($prepared->entry->tool->execute($arguments, $prepared->call->id));
        } catch (\Throwable $exception) {
            $failure = ToolFailure::of($exception);
        }
        if (Deadline::now() - $started > $prepared->timeout) {
            throw self::timedOut($prepared->entry, $prepared->timeout);
        }
        return $output ?? throw $failure;
    }

    public static function timedOut(ToolEntry $entry, float $seconds): ToolFailure
    {
        $server = ($entry->origin?->label ?? '') === '' ? '' : " of server '{$entry->origin->label}'";
        return new ToolFailure('timeout', "Tool '{$entry->definition->name}'$server timed out after " . Json::encode($seconds) . 's');
    }
}
