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
    /**
     * Maximum nesting depth of a message: the maximum depth of a result plus the levels of the
     * message that surround the result.
     */
    private const MAX_DEPTH = Json::MAX_DEPTH + 8;

    /** Returns the response to a call, as one line. */
    public static function encodeResult(int|string $id, string $toolName, ToolResult $result): string
    {
        try {
            $line = self::encode(['id' => $id, 'result' => self::toCallResult($result)]);
            if (strlen($line) <= Connection::MAX_LINE_LEN) {
                return $line;
            }
            $errorMessage = sprintf("Tool '%s' returned %d bytes; the limit is %d", $toolName, strlen($line), Connection::MAX_LINE_LEN);
        } catch (InvalidInputException | \JsonException $exception) {
            $errorMessage = $exception->getMessage();
        }
        return self::encode(['id' => $id, 'result' => self::toFailedResult(ToolResult::failure($errorMessage))]);
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
        return json_encode($value, Json::ENCODE_FLAGS, self::MAX_DEPTH);
    }

    /**
     * @return array<string, mixed>
     *
     * @throws InvalidInputException when the result cannot be converted to JSON
     */
    private static function toCallResult(ToolResult $result): array
    {
        if (!$result->success) {
            return self::toFailedResult($result);
        }
        $structuredContent = self::toStructuredContent($result->structuredContent());
        $blocks = $result->content();
        $mcpResult = $result->result;
        if (!is_array($mcpResult) || !self::isMcpResult($mcpResult, $blocks)) {
            return ['content' => $blocks] + ($structuredContent === null ? [] : ['structuredContent' => $structuredContent]);
        }
        // An empty PHP array under `structuredContent` becomes an empty map, because most MCP
        // revisions allow only maps there.
        $structuredContent ??= ($mcpResult['structuredContent'] ?? null) === [] ? new \stdClass() : null;
        if ($blocks === [] && $structuredContent !== null) {
            $blocks = [['type' => 'text', 'text' => Json::encode($structuredContent)]];
        }
        $callResult = ['content' => $blocks];
        if ($structuredContent !== null) {
            $callResult['structuredContent'] = $structuredContent;
        }
        if (($mcpResult['isError'] ?? false) === true) {
            $callResult['isError'] = true;
        }
        if (is_array($mcpResult['_meta'] ?? null) && $mcpResult['_meta'] !== []) {
            $callResult['_meta'] = $mcpResult['_meta'];
        }
        return $callResult;
    }

    /** @return array<string, mixed> */
    private static function toFailedResult(ToolResult $result): array
    {
        $structuredContent = self::toStructuredContent($result->result);
        return [
            'content' => [['type' => 'text', 'text' => $result->error ?? 'The tool failed']],
            'isError' => true,
            'errorCode' => Failure::toKnownCode($result->errorCode),
        ] + ($structuredContent === null ? [] : ['structuredContent' => $structuredContent]);
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
     * Returns a map as structured content, and null for any other value. A list is sent as text,
     * because most MCP revisions allow only maps as structured content. An empty PHP array counts
     * as a list.
     */
    private static function toStructuredContent(mixed $value): ?\stdClass
    {
        if (!is_array($value) && !is_object($value)) {
            return null;
        }
        $tree = Json::toTree($value);
        return $tree instanceof \stdClass ? $tree : null;
    }
}
