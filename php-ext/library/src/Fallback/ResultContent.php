<?php

declare(strict_types=1);

namespace Pillion\Fallback;

use Pillion\ToolResult;

/**
 * Reads a result as MCP content blocks and as text. The result of an MCP tool has the blocks that the server
 * sent; any other result is read as one text block.
 *
 * @internal
 */
final class ResultContent
{
    /** @param ?list<array<string, mixed>> $blocks null for a result that is not in MCP form */
    private function __construct(private readonly ToolResult $result, private readonly ?array $blocks)
    {
    }

    public static function fromResult(ToolResult $result): self
    {
        return new self($result, self::blocksOf($result->result));
    }

    /** @return list<array<string, mixed>> */
    public function blocks(): array
    {
        $text = $this->blocks === null ? $this->plainText() : null;
        return $this->blocks ?? ($text === null || $text === '' ? [] : [['type' => 'text', 'text' => $text]]);
    }

    public function text(): string
    {
        if ($this->blocks === null) {
            return $this->plainText() ?? '';
        }
        $texts = [];
        foreach ($this->blocks as $block) {
            if ($block['type'] === 'text' && is_string($block['text'] ?? null)) {
                $texts[] = $block['text'];
            }
        }
        $structured = $this->structured();
        return $texts === [] && $structured !== null ? Json::encode($structured) : implode("\n", $texts);
    }

    public function structured(): mixed
    {
        if ($this->blocks !== null) {
            return $this->result->result['structuredContent'] ?? null;
        }
        return $this->result->data ?? (is_string($this->result->result) ? null : $this->result->result);
    }

    /**
     * @return list<array{mime_type: string, data: string}>
     *
     * @throws \Pillion\Exception\TransportException
     */
    public function images(): array
    {
        $images = [];
        foreach ($this->blocks ?? [] as $index => $block) {
            [$type, $base64] = self::image($block);
            if ($type !== null && $base64 !== null) {
                $data = base64_decode(preg_replace('/\s+/', '', $base64), true);
                $images[] = $data === false
                    ? throw Failure::transport("Content block $index holds no valid base64")
                    : ['mime_type' => $type, 'data' => $data];
            }
        }
        return $images;
    }

    /**
     * Returns the media type and the base64 data of an image block or of an image in an embedded resource.
     *
     * @param array<string, mixed> $block
     *
     * @return array{?string, ?string}
     */
    private static function image(array $block): array
    {
        $text = static fn (array $map, string $key): ?string => is_string($map[$key] ?? null) ? $map[$key] : null;
        if ($block['type'] === 'image') {
            return [$text($block, 'mimeType') ?? 'application/octet-stream', $text($block, 'data')];
        }
        $resource = $block['type'] === 'resource' && is_array($block['resource'] ?? null) ? $block['resource'] : [];
        $type = $text($resource, 'mimeType');
        return [$type !== null && str_starts_with($type, 'image/') ? $type : null, $text($resource, 'blob')];
    }

    /** Returns the text of a result that is not in MCP form; null if the result is empty. */
    private function plainText(): ?string
    {
        $result = $this->result->result;
        return match (true) {
            is_string($result) => $result,
            $result !== null => Json::encode($result),
            default => $this->result->error,
        };
    }

    /**
     * Returns the blocks of a result in MCP form: an array whose `content` is a list of blocks, each with a
     * `type`.
     *
     * @return ?list<array<string, mixed>>
     */
    private static function blocksOf(mixed $result): ?array
    {
        if (!is_array($result)) {
            return null;
        }
        if (!array_key_exists('content', $result)) {
            // Only MCP results have the key `structuredContent`.
            return array_key_exists('structuredContent', $result) ? [] : null;
        }
        $blocks = $result['content'];
        if (!is_array($blocks) || !array_is_list($blocks)) {
            return null;
        }
        foreach ($blocks as $block) {
            if (!is_array($block) || !is_string($block['type'] ?? null)) {
                return null;
            }
        }
        return $blocks;
    }
}
