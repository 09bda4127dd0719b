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
        return new self($result, self::parseBlocks($result->result));
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
        $structuredContent = $this->structuredContent();
        return $texts === [] && $structuredContent !== null ? Json::encode($structuredContent) : implode("\n", $texts);
    }

    public function structuredContent(): mixed
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
            [$mediaType, $base64] = self::readImage($block);
            if ($mediaType !== null && $base64 !== null) {
                $data = base64_decode(preg_replace('/\s+/', '', $base64), true);
                $images[] = $data === false
                    ? throw Failure::transport("Content block $index does not contain valid base64")
                    : ['mime_type' => $mediaType, 'data' => $data];
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
    private static function readImage(array $block): array
    {
        $readText = static fn (array $map, string $key): ?string => is_string($map[$key] ?? null) ? $map[$key] : null;
        if ($block['type'] === 'image') {
            return [$readText($block, 'mimeType') ?? 'application/octet-stream', $readText($block, 'data')];
        }
        $resource = $block['type'] === 'resource' && is_array($block['resource'] ?? null) ? $block['resource'] : [];
        $mediaType = $readText($resource, 'mimeType');
        return [$mediaType !== null && str_starts_with($mediaType, 'image/') ? $mediaType : null, $readText($resource, 'blob')];
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
    private static function parseBlocks(mixed $result): ?array
    {
        if (!is_array($result)) {
            return null;
        }
        if (!array_key_exists('content', $result)) {
            // The key `structuredContent` marks an MCP result, because no other result has it.
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
