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
 * Sends one request to execute calls to the sidecar, and handles the requests that the sidecar
 * sends to this process, until all calls have results.
 *
 * @internal
 */
final class Execution
{
    private readonly CallNotices $notices;
    private readonly PhpCode $phpCode;
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
        $this->phpCode = new PhpCode($entries, $options, $context);
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
        $id = $connection->request($this->entries, $this->buildParams($isParallel, $isNested));
        $isRunning = true;
        try {
            while (isset(($message = $connection->nextMessage($id))->method)) {
                $this->handle($connection, $message);
            }
            $isRunning = false;
        } finally {
            $connection->endExecution($id, $isRunning);
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
     * Ends each call that has no result with a failure, and notifies the listeners.
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
    private function buildParams(bool $isParallel, bool $isNested): array
    {
        $context = $this->context;
        $params = [
            'calls' => array_map($this->describeCall(...), $this->calls),
            'parallel' => $isParallel,
            'nested' => $isNested,
            'user' => $context->user,
            'channel' => $context->channel,
            'approved' => $context->approvedIds,
            'approvedArguments' => (object) array_map(static fn (array $arguments) => (object) $arguments, $context->approvedArguments),
            'denied' => $context->deniedIds,
            'callbacks' => ['approve' => $this->options->approve !== null, 'before' => $this->options->before !== null],
        ];
        try {
            return $params + ['headers' => (object) $context->headers()];
        } catch (PillionException $exception) {
            // If the context cannot be converted to headers, only the calls of tools that run in
            // the sidecar fail.
            return $params + ['headerFailure' => ToolFailure::fromThrowable($exception)->toResult(new ToolCall('', ''))];
        }
    }

    /** @return array<string, mixed> */
    private function describeCall(ToolCall $call): array
    {
        $tool = $this->entries->find($call->name)?->tool;
        return [
            'id' => $call->id,
            'name' => $call->name,
            // The arguments are sent as a JSON string, because the surrounding levels of the
            // message would reduce the maximum nesting depth of arguments sent as a JSON value.
            'arguments' => is_array($call->arguments) ? Json::encodeArguments($call->arguments) : $call->arguments,
            'inPhp' => $tool !== null && SidecarTools::findSidecarName($tool) === null,
        ];
    }

    private function handle(ExecutorConnection $connection, \stdClass $message): void
    {
        $params = $message->params;
        match ($message->method) {
            'tools/call' => $connection->respond($message->id, $this->phpCode->runTool($params)),
            'approve' => $connection->respond($message->id, $this->phpCode->runApprove($params)),
            'before' => $connection->respond($message->id, $this->phpCode->runBefore($params)),
            'notifications/call_started', 'notifications/call_finished' => $this->notify($message->method, $params),
            'notifications/result' => $this->results[$params->index] = self::toResult($this->calls[$params->index], $params),
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
            $this->notices->failRunning(ToolFailure::fromThrowable($failure)->errorCode);
            throw $failure;
        }
    }

    private static function toResult(ToolCall $call, \stdClass $params): ToolResult
    {
        $result = $params->result ?? null;
        if ($result === null) {
            $failure = new ToolFailure('internal_error', 'Names in the result must not begin with the character U+0000');
            return $failure->toResult($call);
        }
        $metadata = (array) Json::toArrays($result->metadata);
        if (($result->error_code ?? null) === 'approval_required' && ($result->metadata->arguments ?? null) instanceof \stdClass) {
            // The metadata contains the exact arguments, because the approver needs to see the
            // arguments that the tool would receive.
            $metadata['arguments'] = Json::toMemberArrays($result->metadata->arguments);
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
