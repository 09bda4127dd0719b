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
final class Answer
{
    /** Maximum nesting of a message: that of a result plus the surrounding levels. */
    private const DEPTH = Json::DEPTH + 8;
    private const FLAGS = JSON_THROW_ON_ERROR | JSON_UNESCAPED_SLASHES | JSON_UNESCAPED_UNICODE
        | JSON_UNESCAPED_LINE_TERMINATORS | JSON_PRESERVE_ZERO_FRACTION;

    /** Returns the response to a call, as one line. */
    public static function line(int|string $id, string $tool, ToolResult $result): string
    {
        try {
            $line = self::message(['id' => $id, 'result' => self::result($result)]);
            if (strlen($line) <= Connection::MAX_LINE_LEN) {
                return $line;
            }
            $failure = sprintf("Tool '%s' returned %d bytes; the limit is %d", $tool, strlen($line), Connection::MAX_LINE_LEN);
        } catch (InvalidInputException | \JsonException $e) {
            $failure = $e->getMessage();
        }
        return self::message(['id' => $id, 'result' => self::failed(ToolResult::failure($failure))]);
    }

    /**
     * Returns a JSON-RPC message as one line.
     *
     * @param array<string, mixed> $members
     *
     * @throws \JsonException
     */
    public static function message(array $members): string
    {
        return self::json(['jsonrpc' => '2.0'] + $members) . "\n";
    }

    /**
     * @param array<string, mixed> $value
     *
     * @throws \JsonException
     */
    public static function json(array $value): string
    {
        return json_encode($value, self::FLAGS, self::DEPTH);
    }

    /**
     * @return array<string, mixed>
     *
     * @throws InvalidInputException when the result cannot be converted to JSON
     */
    private static function result(ToolResult $result): array
    {
        if (!$result->success) {
            return self::failed($result);
        }
        $structured = self::map($result->structuredContent());
        $blocks = $result->content();
        $given = $result->result;
        if (!is_array($given) || !self::isOfMcp($given, $blocks)) {
            return ['content' => $blocks] + ($structured === null ? [] : ['structuredContent' => $structured]);
        }
        // In a result in MCP form, an empty PHP array as `structuredContent` can only be an empty map.
        $structured ??= ($given['structuredContent'] ?? null) === [] ? new \stdClass() : null;
        if ($blocks === [] && $structured !== null) {
            $blocks = [['type' => 'text', 'text' => Json::encode($structured)]];
        }
        $answer = ['content' => $blocks];
        if ($structured !== null) {
            $answer['structuredContent'] = $structured;
        }
        if (($given['isError'] ?? false) === true) {
            $answer['isError'] = true;
        }
        if (is_array($given['_meta'] ?? null) && $given['_meta'] !== []) {
            $answer['_meta'] = $given['_meta'];
        }
        return $answer;
    }

    /** @return array<string, mixed> */
    private static function failed(ToolResult $result): array
    {
        $structured = self::map($result->result);
        return [
            'content' => [['type' => 'text', 'text' => $result->error ?? 'The tool failed']],
            'isError' => true,
            'errorCode' => Failure::code($result->errorCode) ?? 'internal_error',
        ] + ($structured === null ? [] : ['structuredContent' => $structured]);
    }

    /**
     * @param array<array-key, mixed>    $given
     * @param list<array<string, mixed>> $blocks
     */
    private static function isOfMcp(array $given, array $blocks): bool
    {
        return array_key_exists('content', $given)
            ? $given['content'] === $blocks
            : array_key_exists('structuredContent', $given);
    }

    /**
     * Returns the value as structured content, or null: most MCP revisions allow only maps as structured
     * content, so a list is sent as text. An empty PHP array counts as a list.
     */
    private static function map(mixed $value): ?\stdClass
    {
        if (!is_array($value) && !is_object($value)) {
            return null;
        }
        $tree = Json::tree($value);
        return $tree instanceof \stdClass ? $tree : null;
    }
}
