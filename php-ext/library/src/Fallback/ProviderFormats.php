<?php

declare(strict_types=1);

namespace Pillion\Fallback;

use Pillion\Exception\TransportException;
use Pillion\ToolCall;
use Pillion\ToolDefinition;
use Pillion\ToolResult;

/**
 * Converts tool definitions, calls, messages and results to and from the formats of model
 * providers. The sidecar makes the conversions.
 *
 * @internal
 */
final class ProviderFormats
{
    private const TIMEOUT = 30.0;
    /**
     * Maximum number of cached conversions. Conversions are cached, because an application converts
     * the same tool definitions repeatedly.
     */
    private const MAX_CACHED_LISTS = 16;

    /** @var array<string, list<\stdClass>> the converted definitions by the hash of the request */
    private static array $convertedLists = [];

    /**
     * @param list<ToolDefinition> $definitions
     * @param bool                 $alwaysStrict whether to include `strict` in OpenAI's chat format even for tools that
     *                                           are not strict
     *
     * @return list<array<string, mixed>>
     *
     * @throws \Pillion\Exception\PillionException when the provider is unknown or the sidecar does not respond
     */
    public static function tools(string $provider, array $definitions, bool $alwaysStrict): array
    {
        $tools = array_map(static fn (ToolDefinition $definition): array => [
            'name' => $definition->name,
            'description' => $definition->description,
            'inputSchema' => InputSchema::toTree($definition),
            'strict' => $definition->strict,
        ], $definitions);
        $body = Json::encode(['tools' => $tools, 'alwaysStrict' => $alwaysStrict]);
        $requestHash = hash('xxh128', "$provider\n$body");
        if (!isset(self::$convertedLists[$requestHash])) {
            $convertedTools = self::readObjects(self::send('tools', $provider, $body), 'tools');
            self::$convertedLists = array_slice(self::$convertedLists, 1 - self::MAX_CACHED_LISTS) + [$requestHash => $convertedTools];
        }
        return array_map(Json::toMemberArrays(...), self::$convertedLists[$requestHash]);
    }

    /**
     * @param array<array-key, mixed> $response
     *
     * @return list<ToolCall>
     */
    public static function calls(string $provider, array $response): array
    {
        return array_map(static function (\stdClass $call): ToolCall {
            $tree = $call->arguments ?? new \stdClass();
            $arguments = match (true) {
                $tree instanceof \stdClass => Json::toMemberArrays($tree),
                is_array($tree), is_string($tree) => $tree,
                // Any other JSON value is forwarded as text, because the executor reports arguments
                // that are not an object.
                default => Json::encode($tree),
            };
            if (!is_string($call->id ?? null) || !is_string($call->name ?? null)) {
                throw self::malformedResponse('calls');
            }
            return new ToolCall($call->id, $call->name, $arguments, index: $call->index ?? null);
        }, self::readObjects(self::send('tool-calls', $provider, Json::encode($response)), 'calls'));
    }

    /** @param array<array-key, mixed> $response */
    public static function text(string $provider, array $response): string
    {
        $text = self::send('text', $provider, Json::encode($response))->text ?? null;
        return is_string($text) ? $text : throw self::malformedResponse('text');
    }

    /**
     * @param array<array-key, mixed> $response
     *
     * @return list<array<string, mixed>>
     */
    public static function messages(string $provider, array $response): array
    {
        $messages = self::readObjects(self::send('messages', $provider, Json::encode($response)), 'messages');
        return array_map(Json::toMemberArrays(...), $messages);
    }

    /**
     * @param list<ToolResult> $results
     *
     * @return list<array<string, mixed>>
     */
    public static function results(string $provider, array $results): array
    {
        $encodedResults = array_map(static function (ToolResult $result): string {
            $members = [
                'tool_call_id' => $result->toolCallId,
                'tool_name' => $result->toolName,
                'success' => $result->success,
                'error' => $result->error,
            ];
            // The result is encoded separately, because the surrounding levels of the request must
            // not count against the depth limit of the result.
            return substr(Json::encode($members), 0, -1) . ',"result":' . Json::encode($result->result) . '}';
        }, $results);
        $body = '{"results":[' . implode(',', $encodedResults) . ']}';
        return array_map(Json::toMemberArrays(...), self::readObjects(self::send('results', $provider, $body), 'messages'));
    }

    private static function send(string $route, string $provider, string $body): \stdClass
    {
        return (new SidecarApi(SocketPath::default(), self::TIMEOUT))->format($route, $provider, $body);
    }

    /** @return list<\stdClass> */
    private static function readObjects(\stdClass $response, string $field): array
    {
        $objects = $response->$field ?? null;
        $isValid = is_array($objects) && array_filter($objects, static fn (mixed $object): bool => !$object instanceof \stdClass) === [];
        return $isValid ? $objects : throw self::malformedResponse($field);
    }

    private static function malformedResponse(string $field): TransportException
    {
        return Failure::transport("The sidecar's response has no valid '$field'");
    }
}
