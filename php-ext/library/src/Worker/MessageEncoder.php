<?php

declare(strict_types=1);

namespace Pillion\Worker;

use Pillion\Exception\InvalidInputException;
use Pillion\Fallback\Failure;
use Pillion\Fallback\Json;
use Pillion\ToolResult;

/**
 * Converts results to MCP's `CallToolResult`, with `errorCode` for failures.
 *
 * @internal
 */
final class MessageEncoder
{
    /** Maximum nesting of a message: that of a result plus the surrounding levels. */
    private const DEPTH = Json::MAX_DEPTH + 8;

    /** Returns the response to a call, as one line. */
    public static function encodeResult(int|string $id, string $tool, ToolResult $result): string
    {
        try {
            $line = self::encode(['id' => $id, 'result' => self::callResult($result)]);
            if (strlen($line) <= Connection::MAX_LINE_LEN) {
                return $line;
            }
            $failure = sprintf("Tool '%s' returned %d bytes; the limit is %d", $tool, strlen($line), Connection::MAX_LINE_LEN);
        } catch (InvalidInputException | \JsonException $e) {
            $failure = $e->getMessage();
        }
        return self::encode(['id' => $id, 'result' => self::failedResult(ToolResult::failure($failure))]);
    }

    /**
     * Returns a JSON-RPC message as one line.
     *
     * @param array<string, mixed> $members
     *
     * @throws \JsonException
     */
    public static function encode(array $members): string
    {
        return self::encodeJson(['jsonrpc' => '2.0'] + $members) . "\n";
    }

    /**
     * @param array<string, mixed> $value
     *
     * @throws \JsonException
     */
    public static function encodeJson(array $value): string
    {
        return json_encode($value, Json::ENCODE_FLAGS, self::DEPTH);
    }

    /**
     * @return array<string, mixed>
     *
     * @throws InvalidInputException when the result cannot be converted to JSON
     */
    private static function callResult(ToolResult $result): array
    {
        if (!$result->success) {
            return self::failedResult($result);
        }
        $structured = self::structuredContentOf($result->structuredContent());
        $blocks = $result->content();
        $mcpResult = $result->result;
        if (!is_array($mcpResult) || !self::isMcpResult($mcpResult, $blocks)) {
            return ['content' => $blocks] + ($structured === null ? [] : ['structuredContent' => $structured]);
        }
        // In a result in MCP form, an empty PHP array as `structuredContent` can only be an empty map.
        $structured ??= ($mcpResult['structuredContent'] ?? null) === [] ? new \stdClass() : null;
        if ($blocks === [] && $structured !== null) {
            $blocks = [['type' => 'text', 'text' => Json::encode($structured)]];
        }
        $converted = ['content' => $blocks];
        if ($structured !== null) {
            $converted['structuredContent'] = $structured;
        }
        if (($mcpResult['isError'] ?? false) === true) {
            $converted['isError'] = true;
        }
        if (is_array($mcpResult['_meta'] ?? null) && $mcpResult['_meta'] !== []) {
            $converted['_meta'] = $mcpResult['_meta'];
        }
        return $converted;
    }

    /** @return array<string, mixed> */
    private static function failedResult(ToolResult $result): array
    {
        $structured = self::structuredContentOf($result->result);
        return [
            'content' => [['type' => 'text', 'text' => $result->error ?? 'The tool failed']],
            'isError' => true,
            'errorCode' => Failure::knownCode($result->errorCode),
        ] + ($structured === null ? [] : ['structuredContent' => $structured]);
    }

    /**
     * @param array<array-key, mixed>    $mcpResult
     * @param list<array<string, mixed>> $blocks
     */
    private static function isMcpResult(array $mcpResult, array $blocks): bool
    {
        return array_key_exists('content', $mcpResult)
            ? $mcpResult['content'] === $blocks
            : array_key_exists('structuredContent', $mcpResult);
    }

    /**
     * Returns the value as structured content, or null: most MCP revisions allow only maps as structured
     * content, so a list is sent as text. An empty PHP array counts as a list.
     */
    private static function structuredContentOf(mixed $value): ?\stdClass
    {
        if (!is_array($value) && !is_object($value)) {
            return null;
        }
        $tree = Json::toTree($value);
        return $tree instanceof \stdClass ? $tree : null;
    }
}
