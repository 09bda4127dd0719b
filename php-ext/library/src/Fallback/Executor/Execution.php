<?php

declare(strict_types=1);

namespace Pillion\Fallback\Executor;

use Pillion\Exception\PillionException;
use Pillion\Fallback\Context;
use Pillion\Fallback\Failure;
use Pillion\Fallback\Hooks;
use Pillion\Fallback\Json;
use Pillion\Fallback\Registry\ToolEntries;
use Pillion\Fallback\SidecarTools;
use Pillion\ToolCall;
use Pillion\ToolResult;

/**
 * One request to run calls: serves the sidecar's requests until all calls have results.
 *
 * @internal
 */
final class Execution
{
    private readonly CallNotices $notices;
    private readonly PhpCode $code;
    /** @var array<int, ToolResult> */
    private array $results = [];
    /** The exception of a listener that ended the execution. */
    public ?\Throwable $listenerFailure = null;

    /** @param list<ToolCall> $calls */
    public function __construct(
        private readonly ToolEntries $entries,
        private readonly ExecutorOptions $options,
        Hooks $hooks,
        private readonly Context $context,
        private readonly array $calls,
    ) {
        $this->notices = new CallNotices($hooks);
        $this->code = new PhpCode($entries, $options, $context);
    }

    /**
     * @return list<ToolResult> in the order of the calls
     *
     * @throws \Pillion\Exception\InvalidInputException when the sidecar rejects the definition of a tool
     * @throws PillionException                         when the connection fails
     * @throws \Throwable                               an exception of a listener
     */
    public function run(ExecutorConnection $connection, bool $isParallel, bool $isNested): array
    {
        $id = $connection->request($this->entries, $this->params($isParallel, $isNested));
        $isRunning = true;
        try {
            while (isset(($message = $connection->next($id))->method)) {
                $this->handle($connection, $message);
            }
            $isRunning = false;
        } finally {
            $connection->end($id, $isRunning);
        }
        if (isset($message->error)) {
            $connection->rejectDefinitions();
            throw Failure::invalidInput((string) ($message->error->message ?? 'The sidecar rejected the calls'));
        }
        ksort($this->results);
        return count($this->results) === count($this->calls)
            ? $this->results
            : throw Failure::transport('The sidecar did not send a result for each call');
    }

    /**
     * Ends the calls without results with a failure, and notifies the listeners.
     *
     * @return list<ToolResult>
     */
    public function failOpenCalls(ToolFailure $failure): array
    {
        foreach ($this->calls as $index => $call) {
            if (!isset($this->results[$index])) {
                $this->results[$index] = $failure->toResult($call);
                $this->notices->fail($call, $this->entries->find($call->name)?->origin, $failure->errorCode);
            }
        }
        ksort($this->results);
        return $this->results;
    }

    /** @return array<string, mixed> */
    private function params(bool $isParallel, bool $isNested): array
    {
        $context = $this->context;
        $params = [
            'calls' => array_map($this->describe(...), $this->calls),
            'parallel' => $isParallel,
            'nested' => $isNested,
            'user' => $context->user,
            'channel' => $context->channel,
            'approved' => $context->approved,
            'approvedArguments' => (object) array_map(static fn (array $arguments) => (object) $arguments, $context->approvedArguments),
            'denied' => $context->denied,
            'callbacks' => ['approve' => $this->options->approve !== null, 'before' => $this->options->before !== null],
        ];
        try {
            return $params + ['headers' => (object) $context->headers()];
        } catch (PillionException $e) {
            // A failure to create the headers fails only the calls of the sidecar's own tools.
            return $params + ['headerFailure' => ToolFailure::fromThrowable($e)->toResult(new ToolCall('', ''))];
        }
    }

    /** @return array<string, mixed> */
    private function describe(ToolCall $call): array
    {
        $tool = $this->entries->find($call->name)?->tool;
        return [
            'id' => $call->id,
            'name' => $call->name,
            // The arguments are sent as a JSON string, so that they may nest as deep as any JSON
            // text.
            'arguments' => is_array($call->arguments) ? Json::encodeArguments($call->arguments) : $call->arguments,
            'inPhp' => $tool !== null && SidecarTools::sidecarNameOf($tool) === null,
        ];
    }

    private function handle(ExecutorConnection $connection, \stdClass $message): void
    {
        $params = $message->params;
        match ($message->method) {
            'tools/call' => $connection->respond($message->id, $this->code->runTool($params)),
            'approve' => $connection->respond($message->id, $this->code->approve($params)),
            'before' => $connection->respond($message->id, $this->code->before($params)),
            'notifications/call_started', 'notifications/call_finished' => $this->notify($message->method, $params),
            'notifications/result' => $this->results[$params->index] = self::result($this->calls[$params->index], $params),
            default => null,
        };
    }

    /** @throws \Throwable an exception of a listener, which ends the execution */
    private function notify(string $method, \stdClass $params): void
    {
        $server = $params->server ?? null;
        try {
            if ($method === 'notifications/call_started') {
                $this->notices->start($params->name, $params->callId, $server);
            } else {
                $this->notices->finish($params->name, $params->callId, $server, $params->errorCode ?? null, (float) $params->seconds);
            }
        } catch (\Throwable $failure) {
            $this->listenerFailure = $failure;
            $this->notices->failStarted(ToolFailure::fromThrowable($failure)->errorCode);
            throw $failure;
        }
    }

    private static function result(ToolCall $call, \stdClass $params): ToolResult
    {
        $result = $params->result ?? null;
        if ($result === null) {
            $failure = new ToolFailure('internal_error', 'Names in the result must not begin with the character U+0000');
            return $failure->toResult($call);
        }
        $metadata = (array) Json::toArrays($result->metadata);
        if (($result->error_code ?? null) === 'approval_required' && ($result->metadata->arguments ?? null) instanceof \stdClass) {
            // The metadata contain the exact arguments, because the approver needs to see the
            // arguments that the tool would receive.
            $metadata['arguments'] = Json::memberArrays($result->metadata->arguments);
        }
        return new ToolResult(
            $call->id,
            $call->name,
            Json::toArrays($result->result ?? null),
            $result->success,
            $result->error ?? null,
            $result->error_code ?? null,
            Json::toArrays($result->data ?? null),
            $metadata,
        );
    }
}
