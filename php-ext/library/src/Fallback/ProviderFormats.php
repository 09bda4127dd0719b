<?php

declare(strict_types=1);

namespace Pillion\Fallback;

use Pillion\Exception\TransportException;
use Pillion\ToolCall;
use Pillion\ToolDefinition;
use Pillion\ToolResult;

/**
 * Converts to and from the formats of model providers, which the sidecar knows.
 *
 * @internal
 */
final class ProviderFormats
{
    private const TIMEOUT = 30.0;
    /** Number of lists of converted definitions that are kept: an application converts the same tools repeatedly. */
    private const MAX_CACHED = 16;

    /** @var array<string, list<\stdClass>> the converted definitions by request */
    private static array $converted = [];

    /**
     * @param list<ToolDefinition> $definitions
     * @param bool                 $alwaysStrict whether OpenAI's chat format has `strict` also for a tool that is not strict
     *
     * @return list<array<string, mixed>>
     *
     * @throws \Pillion\Exception\PillionException when the provider is unknown or the sidecar does not answer
     */
    public static function tools(string $provider, array $definitions, bool $alwaysStrict): array
    {
        $tools = array_map(static fn (ToolDefinition $definition): array => [
            'name' => $definition->name,
            'description' => $definition->description,
            'inputSchema' => InputSchema::tree($definition),
            'strict' => $definition->strict,
        ], $definitions);
        $body = Json::encode(['tools' => $tools, 'alwaysStrict' => $alwaysStrict]);
        $key = hash('xxh128', "$provider\n$body");
        if (!isset(self::$converted[$key])) {
            $converted = self::objects(self::send('tools', $provider, $body), 'tools');
            self::$converted = array_slice(self::$converted, 1 - self::MAX_CACHED) + [$key => $converted];
        }
        return array_map(Json::memberArrays(...), self::$converted[$key]);
    }

    /**
     * @param array<array-key, mixed> $response
     *
     * @return list<ToolCall>
     */
    public static function calls(string $provider, array $response): array
    {
        return array_map(static function (\stdClass $call): ToolCall {
            $arguments = $call->arguments ?? new \stdClass();
            $arguments = match (true) {
                $arguments instanceof \stdClass => Json::memberArrays($arguments),
                is_array($arguments), is_string($arguments) => $arguments,
                // Text that is not valid JSON is forwarded, because the executor reports the error.
                default => Json::encode($arguments),
            };
            if (!is_string($call->id ?? null) || !is_string($call->name ?? null)) {
                throw self::malformed('calls');
            }
            return new ToolCall($call->id, $call->name, $arguments, index: $call->index ?? null);
        }, self::objects(self::send('tool-calls', $provider, Json::encode($response)), 'calls'));
    }

    /** @param array<array-key, mixed> $response */
    public static function text(string $provider, array $response): string
    {
        $text = self::send('text', $provider, Json::encode($response))->text ?? null;
        return is_string($text) ? $text : throw self::malformed('text');
    }

    /**
     * @param array<array-key, mixed> $response
     *
     * @return list<array<string, mixed>>
     */
    public static function messages(string $provider, array $response): array
    {
        $messages = self::objects(self::send('messages', $provider, Json::encode($response)), 'messages');
        return array_map(Json::memberArrays(...), $messages);
    }

    /**
     * @param list<ToolResult> $results
     *
     * @return list<array<string, mixed>>
     */
    public static function results(string $provider, array $results): array
    {
        $entries = array_map(static function (ToolResult $result): string {
            $members = [
                'tool_call_id' => $result->toolCallId,
                'tool_name' => $result->toolName,
                'success' => $result->success,
                'error' => $result->error,
            ];
            // The result is encoded separately, so that the depth limit applies to the result
            // alone.
            return substr(Json::encode($members), 0, -1) . ',"result":' . Json::encode($result->result) . '}';
        }, $results);
        $body = '{"results":[' . implode(',', $entries) . ']}';
        return array_map(Json::memberArrays(...), self::objects(self::send('results', $provider, $body), 'messages'));
    }

    private static function send(string $part, string $provider, string $body): \stdClass
    {
        return (new SidecarApi(SocketPath::default(), self::TIMEOUT))->format($part, $provider, $body);
    }

    /** @return list<\stdClass> */
    private static function objects(\stdClass $response, string $field): array
    {
        $objects = $response->$field ?? null;
        $isValid = is_array($objects) && array_filter($objects, static fn (mixed $object): bool => !$object instanceof \stdClass) === [];
        return $isValid ? $objects : throw self::malformed($field);
    }

    private static function malformed(string $field): TransportException
    {
        return Failure::transport("The sidecar's response has no valid '$field'");
    }
}
