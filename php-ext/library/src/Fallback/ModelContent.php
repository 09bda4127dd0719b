<?php

declare(strict_types=1);

namespace Pillion\Fallback;

use Pillion\ToolResult;

/**
 * The part of a result that a model reads. For an MCP result with content blocks, this is the text
 * of the blocks, one line per block, with markers in place of encoded images, recordings and files.
 * For an MCP result without blocks, this is the structured content. Any other result is unchanged,
 * except that markers replace encoded data.
 *
 * @internal
 */
final class ModelContent
{
    private const MCP_RESULT_MEMBERS = ['content', 'structuredContent', 'isError', '_meta', 'resultType'];

    private function __construct(private readonly ToolResult $result, private readonly mixed $value)
    {
    }

    /** @throws \Pillion\Exception\InvalidInputException when the result cannot be converted to JSON */
    public static function fromResult(ToolResult $result): self
    {
        return new self($result, self::selectContent($result->result));
    }

    /** Returns the text for a model: a string unchanged, any other value as JSON. */
    public function text(): string
    {
        return Json::toText($this->value);
    }

    /** Returns whether a failed result contains only the error message. */
    public function isEmptyFailure(): bool
    {
        return !$this->result->success && in_array($this->value, [null, '', $this->result->error], true);
    }

    /** Returns the model's view of the result, as a JSON tree. */
    public function tree(): mixed
    {
        return Json::toTree($this->value);
    }

    private static function selectContent(mixed $result): mixed
    {
        $json = Json::toText($result);
        if (is_string($result) || !in_array($json[0] ?? '', ['{', '['], true)) {
            return $result;
        }
        try {
            // The JSON is parsed to a JSON tree, because a PHP object may also encode to an MCP
            // result.
            $tree = Json::parse($json);
        } catch (\JsonException) {
            return $result;
        }
        $mcpContent = $tree instanceof \stdClass ? self::selectMcpContent($tree) : null;
        if ($mcpContent !== null) {
            return $mcpContent;
        }
        $treeWithoutData = ResultMedia::withoutData($tree);
        // The original result is returned if it needs no change, because the JSON tree may have
        // lost digits of large numbers.
        return $treeWithoutData == $tree ? $result : $treeWithoutData;
    }

    /** Returns the content of an MCP result; null for any other result. */
    private static function selectMcpContent(\stdClass $mcpResult): mixed
    {
        $members = get_object_vars($mcpResult);
        $isMcpResult = isset($members['content']) || array_key_exists('structuredContent', $members);
        if (!$isMcpResult || array_diff(array_keys($members), self::MCP_RESULT_MEMBERS) !== []) {
            return null;
        }
        $blocks = array_key_exists('content', $members) ? $members['content'] : [];
        $structuredContent = $mcpResult->structuredContent ?? null;
        if ($blocks === []) {
            return ResultMedia::withoutData($structuredContent) ?? '';
        }
        return is_array($blocks) ? self::joinTexts($blocks) ?? ResultMedia::joinBlocks($blocks, $structuredContent) : null;
    }

    /**
     * @param non-empty-list<mixed> $blocks
     *
     * @return ?string null if there are other kinds of blocks
     */
    private static function joinTexts(array $blocks): ?string
    {
        $texts = [];
        foreach ($blocks as $block) {
            $isText = $block instanceof \stdClass && ($block->type ?? null) === 'text' && is_string($block->text ?? null);
            if (!$isText) {
                return null;
            }
            $texts[] = $block->text;
        }
        return implode("\n", $texts);
    }
}
