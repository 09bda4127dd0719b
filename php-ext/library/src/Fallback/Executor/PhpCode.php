<?php

declare(strict_types=1);

namespace Pillion\Fallback\Executor;

use Pillion\Fallback\Context;
use Pillion\Fallback\Failure;
use Pillion\Fallback\Json;
use Pillion\Fallback\Registry\ToolEntries;
use Pillion\Fallback\Registry\ToolEntry;
use Pillion\ToolCall;
use Pillion\ToolResult;
use Pillion\Worker\Connection;

/**
 * Runs the PHP tools and callables of an execution, and encodes their outcomes for the sidecar.
 *
 * @internal
 */
final class PhpCode
{
    public function __construct(
        private readonly ToolEntries $entries,
        private readonly ExecutorOptions $options,
        private readonly Context $context,
    ) {
    }

    /** Runs a tool. Returns the response as JSON. */
    public function runTool(\stdClass $params): string
    {
        return self::limitOutcome($params->name, self::encodeOutcome(function () use ($params): ToolResult {
            $entry = $this->findEntry($params);
            // A tool that has replaced the called tool has another registration number and must not
            // run, because the call may have been approved only for the replaced tool.
            if ($entry->number !== $params->tool) {
                throw self::unknownTool($params->name);
            }
            return $entry->tool->execute(Json::toArrays(self::readArguments($params)), $params->callId);
        }));
    }

    /** Calls the callable `approve`, and returns the response as JSON. */
    public function runApprove(\stdClass $params): string
    {
        $response = '';
        $failureJson = self::encodeOutcome(function () use ($params, &$response): ?ToolResult {
            $decision = $this->invoke($this->options->approve, $params);
            if (is_array($decision) && !array_is_list($decision)) {
                $response = '{"decision":true,"arguments":' . Json::encodeArguments($decision) . '}';
            } elseif ($decision === null || is_bool($decision)) {
                $response = '{"decision":' . json_encode($decision) . '}';
            } else {
                $type = get_debug_type($decision);
                throw new ToolFailure('internal_error', "The callable 'approve' must return bool, arguments by name or null, not $type");
            }
            return null;
        });
        return $failureJson ?? $response;
    }

    /** Calls the callable `before`, and returns the response as JSON. */
    public function runBefore(\stdClass $params): string
    {
        return self::limitOutcome($params->name, self::encodeOutcome(function () use ($params): ?ToolResult {
            $result = $this->invoke($this->options->before, $params);
            if ($result !== null && !$result instanceof ToolResult) {
                $type = get_debug_type($result);
                throw new ToolFailure('internal_error', "The callable 'before' must return Pillion\\ToolResult or null, not $type");
            }
            return $result;
        }) ?? '{}');
    }

    /** Calls a callable of the application, if there is one, with the call that `$params` describes. */
    private function invoke(?\Closure $callable, \stdClass $params): mixed
    {
        $entry = $this->findEntry($params);
        $call = new ToolCall($params->callId, $entry->definition->name, Json::toMemberArrays(self::readArguments($params)));
        return $callable === null ? null : $callable($call, $entry->definition, $this->context->toArray($params->approvalId ?? null));
    }

    private function findEntry(\stdClass $params): ToolEntry
    {
        return $this->entries->find($params->name) ?? throw self::unknownTool($params->name);
    }

    private static function unknownTool(string $name): ToolFailure
    {
        return new ToolFailure('not_found', "Unknown tool: $name");
    }

    private static function readArguments(\stdClass $params): \stdClass
    {
        if (isset($params->hasInvalidNames)) {
            throw new ToolFailure('invalid_input', 'Names in the arguments must not begin with the character U+0000');
        }
        return $params->arguments;
    }

    /**
     * Runs PHP code and returns the encoded result. If the code throws an exception or its result
     * cannot be converted to JSON, returns the encoded failure of the call. Returns null if the
     * code returns null.
     *
     * @param \Closure(): ?ToolResult $code
     */
    private static function encodeOutcome(\Closure $code): ?string
    {
        try {
            $result = $code();
            return $result === null ? null : self::encode($result);
        } catch (\Throwable $exception) {
            return self::encode(ToolFailure::fromThrowable($exception)->toResult(new ToolCall('', '')));
        }
    }

    /** @throws \Pillion\Exception\PillionException when the result cannot be converted to JSON: `internal_error` */
    private static function encode(ToolResult $result): string
    {
        $members = [
            'tool_call_id' => '""',
            'tool_name' => '""',
            'success' => $result->success ? 'true' : 'false',
            'result' => Json::encodeReturnValue($result->result),
            'data' => Json::encodeReturnValue($result->data),
            'error' => Json::encodeReturnValue($result->error),
            'error_code' => $result->success ? 'null' : Json::encode(Failure::toKnownCode($result->errorCode)),
            'metadata' => Json::encodeReturnValue((object) $result->metadata),
        ];
        $pairs = array_map(static fn (string $name, string $json): string => "\"$name\":$json", array_keys($members), $members);
        return '{"outcome":{' . implode(',', $pairs) . '}}';
    }

    /** Replaces an outcome that is too large for a message with a failure. */
    private static function limitOutcome(string $toolName, string $outcome): string
    {
        // Besides the outcome, the message contains up to 256 bytes.
        $maxBytes = Connection::MAX_LINE_LEN - 256;
        if (strlen($outcome) <= $maxBytes) {
            return $outcome;
        }
        $failure = new ToolFailure('internal_error', sprintf("Tool '%s' returned %d bytes; the limit is %d", $toolName, strlen($outcome), $maxBytes));
        return self::encode($failure->toResult(new ToolCall('', '')));
    }
}
