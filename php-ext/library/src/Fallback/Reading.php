<?php

declare(strict_types=1);

namespace Pillion\Fallback;

use Pillion\ToolResult;

/**
 * What a model reads of a result: of an MCP result that is text and nothing else that text, a
 * block a line; of one without blocks its structured content; anything else as it is. That is
 * also what has blocks of other kinds, or members that an MCP result does not have.
 *
 * @internal
 */
final class Reading
{
    private const MEMBERS = ['content', 'structuredContent', 'isError', '_meta', 'resultType'];

    private function __construct(private readonly ToolResult $result, private readonly mixed $value)
    {
    }

    /** @throws \Pillion\Exception\InvalidInputException when the result is no JSON */
    public static function of(ToolResult $result): self
    {
        return new self($result, self::read($result->result));
    }

    /** The text for a model: the string itself, else JSON. */
    public function text(): string
    {
        return Json::text($this->value);
    }

    /** Whether the result is no more than the failure itself says. */
    public function isNothing(): bool
    {
        return !$this->result->success && in_array($this->value, [null, '', $this->result->error], true);
    }

    /** What the model reads, as a tree. */
    public function tree(): mixed
    {
        return Json::tree($this->value);
    }

    private static function read(mixed $result): mixed
    {
        $json = Json::text($result);
        if (is_string($result) || !str_starts_with($json, '{')) {
            return $result;
        }
        try {
            // Objects of PHP may be written as an envelope, too.
            $envelope = Json::parse($json);
        } catch (\JsonException) {
            return $result;
        }
        $members = get_object_vars($envelope);
        $isMcp = isset($members['content']) || array_key_exists('structuredContent', $members);
        if (!$isMcp || array_diff(array_keys($members), self::MEMBERS) !== []) {
            return $result;
        }
        $blocks = array_key_exists('content', $members) ? $members['content'] : [];
        if ($blocks === []) {
            return $envelope->structuredContent ?? '';
        }
        return is_array($blocks) ? self::said($blocks) ?? $result : $result;
    }

    /**
     * @param non-empty-list<mixed> $blocks
     *
     * @return ?string null where blocks are of other kinds
     */
    private static function said(array $blocks): ?string
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
