<?php

declare(strict_types=1);

namespace Pillion\Fallback;

use Pillion\ToolResult;

/**
 * The part of a result that a model reads: for an MCP result with only text blocks the text, one line per
 * block; for an MCP result with images, recordings or resources the text of its blocks, with markers in
 * place of encoded data; for an MCP result without blocks the structured content; any other result
 * unchanged, except that encoded data become markers.
 *
 * @internal
 */
final class ModelContent
{
    private const MEMBERS = ['content', 'structuredContent', 'isError', '_meta', 'resultType'];

    private function __construct(private readonly ToolResult $result, private readonly mixed $value)
    {
    }

    /** @throws \Pillion\Exception\InvalidInputException when the result cannot be converted to JSON */
    public static function fromResult(ToolResult $result): self
    {
        return new self($result, self::select($result->result));
    }

    /** Returns the text for a model: a string unchanged, any other value as JSON. */
    public function text(): string
    {
        return Json::text($this->value);
    }

    /** Returns whether a failed result contains no more than the error message. */
    public function isEmptyFailure(): bool
    {
        return !$this->result->success && in_array($this->value, [null, '', $this->result->error], true);
    }

    /** Returns the model's view of the result, as a tree. */
    public function tree(): mixed
    {
        return Json::toTree($this->value);
    }

    private static function select(mixed $result): mixed
    {
        $json = Json::text($result);
        if (is_string($result) || !in_array($json[0] ?? '', ['{', '['], true)) {
            return $result;
        }
        try {
            // A PHP object may also encode to an MCP result.
            $tree = Json::parse($json);
        } catch (\JsonException) {
            return $result;
        }
        $selected = $tree instanceof \stdClass ? self::selectBlocks($tree) : null;
        if ($selected !== null) {
            return $selected;
        }
        $readable = ResultMedia::withoutData($tree);
        // The result itself is returned if possible, because the tree may have lost digits of
        // numbers.
        return $readable == $tree ? $result : $readable;
    }

    /** Returns the content of an MCP result; null for any other result. */
    private static function selectBlocks(\stdClass $envelope): mixed
    {
        $members = get_object_vars($envelope);
        $isMcp = isset($members['content']) || array_key_exists('structuredContent', $members);
        if (!$isMcp || array_diff(array_keys($members), self::MEMBERS) !== []) {
            return null;
        }
        $blocks = array_key_exists('content', $members) ? $members['content'] : [];
        $structured = $envelope->structuredContent ?? null;
        if ($blocks === []) {
            return ResultMedia::withoutData($structured) ?? '';
        }
        return is_array($blocks) ? self::joinTexts($blocks) ?? ResultMedia::text($blocks, $structured) : null;
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
