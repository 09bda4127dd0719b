<?php

declare(strict_types=1);

namespace Pillion\Fallback;

/**
 * Reads the content blocks of MCP results that are not text blocks, such as images and resources.
 * Encoded data is replaced by markers such as `[image image/png, 8 bytes]`.
 *
 * @internal
 */
final class ResultMedia
{
    /**
     * Maximum length of a URI, a name or a media type in a marker, in bytes. The length is limited,
     * because a `data:` URI may contain a whole file.
     */
    private const MAX_SHOWN_BYTES = 512;

    /**
     * Minimum length, in characters, of a text that counts as encoded data. Applies only if the
     * object that contains the text also has a media type.
     */
    private const MIN_DATA_LENGTH = 256;

    /**
     * Returns the content of an MCP result as text, with a marker for each image, recording,
     * resource and resource link; null if the result contains none of these.
     *
     * @param list<mixed> $blocks            JSON trees
     * @param mixed       $structuredContent the structured content as a JSON tree; follows the blocks if no block is text
     */
    public static function joinBlocks(array $blocks, mixed $structuredContent): ?string
    {
        $blockTexts = array_map(self::describeBlock(...), $blocks);
        if (array_filter($blockTexts, is_string(...)) === []) {
            return null;
        }
        $hasText = false;
        foreach ($blocks as $index => $block) {
            $isText = $block instanceof \stdClass && ($block->type ?? null) === 'text' && is_string($block->text ?? null);
            $hasText = $hasText || $isText;
            $blockTexts[$index] ??= $isText ? $block->text : Json::encode(self::withoutData($block));
        }
        if (!$hasText && $structuredContent !== null) {
            $blockTexts[] = Json::encode(self::withoutData($structuredContent));
        }
        return implode("\n", $blockTexts);
    }

    /** Returns a JSON tree with a marker in place of each encoded image, recording or file. */
    public static function withoutData(mixed $tree): mixed
    {
        if (is_array($tree)) {
            return array_map(self::withoutData(...), $tree);
        }
        if (!$tree instanceof \stdClass) {
            return $tree;
        }
        $treeWithoutData = new \stdClass();
        foreach (get_object_vars($tree) as $name => $member) {
            $treeWithoutData->{$name} = self::withoutData($member);
        }
        $kind = in_array($tree->type ?? null, ['image', 'audio'], true) ? $tree->type : null;
        $mediaTypes = array_filter([$tree->mimeType ?? null, $tree->mime_type ?? null, $tree->media_type ?? null], is_string(...));
        $mediaType = reset($mediaTypes) ?: null;
        foreach (['data', 'blob'] as $name) {
            $data = $tree->{$name} ?? null;
            $isData = ($mediaType ?? $kind) !== null && is_string($data) && strlen($data) >= self::MIN_DATA_LENGTH && self::isBase64($data);
            if ($isData) {
                $treeWithoutData->{$name} = self::formatMarker($kind ?? 'file', null, $mediaType, $data);
            }
        }
        return $treeWithoutData;
    }

    private static function describeBlock(mixed $block): ?string
    {
        if (!$block instanceof \stdClass) {
            return null;
        }
        $kind = $block->type ?? null;
        if ($kind === 'resource_link') {
            return self::describeLink($block);
        }
        if ($kind === 'image' || $kind === 'audio') {
            return is_string($block->data ?? null) ? self::formatMarker($kind, null, $block->mimeType ?? null, $block->data) : null;
        }
        $resource = $kind === 'resource' ? $block->resource ?? null : null;
        if (!$resource instanceof \stdClass || !is_string($resource->uri ?? null)) {
            return null;
        }
        if (is_string($resource->text ?? null)) {
            return '[resource ' . self::shorten($resource->uri) . "]\n" . $resource->text;
        }
        $blob = $resource->blob ?? null;
        return is_string($blob) ? self::formatMarker($kind, $resource->uri, $resource->mimeType ?? null, $blob) : null;
    }

    private static function describeLink(\stdClass $block): ?string
    {
        $readText = static fn (string $key): ?string => is_string($block->{$key} ?? null) ? self::shorten($block->{$key}) : null;
        if ($readText('uri') === null) {
            return null;
        }
        $marker = '[resource link ' . $readText('uri');
        $name = $readText('title') ?? $readText('name');
        $marker .= $name === null ? '' : " $name";
        $marker .= $readText('mimeType') === null ? '' : ', ' . $readText('mimeType');
        $size = $block->size ?? null;
        $marker .= is_int($size) && $size >= 0 ? ", $size bytes]" : ']';
        return $marker . (is_string($block->description ?? null) ? "\n$block->description" : '');
    }

    private static function formatMarker(string $kind, ?string $uri, mixed $mediaType, string $data): string
    {
        $shortType = is_string($mediaType) ? self::shorten($mediaType) : 'application/octet-stream';
        $shortUri = $uri === null ? '' : ' ' . self::shorten($uri);
        $byteCount = intdiv(strlen(preg_replace('/[ \t\n\f\r=]+/', '', $data)) * 3, 4);
        return "[$kind$shortUri $shortType, $byteCount bytes]";
    }

    private static function isBase64(string $text): bool
    {
        $base64 = preg_replace('/[ \t\n\f\r]+/', '', $text);
        $digits = rtrim($base64, '=');
        $hasValidPadding = strlen($base64) - strlen($digits) <= 2;
        return $hasValidPadding && strlen($digits) % 4 !== 1 && strspn($digits, 'ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/') === strlen($digits) && $digits !== '';
    }

    /** Returns a server's text on one line, truncated to {@see self::MAX_SHOWN_BYTES}. */
    private static function shorten(string $text): string
    {
        $shortText = substr($text, 0, self::MAX_SHOWN_BYTES);
        while (!Argument::isUtf8($shortText)) {
            $shortText = substr($shortText, 0, -1);
        }
        $line = preg_replace('/\p{Cc}/u', ' ', $shortText);
        return strlen($shortText) < strlen($text) ? "$line..." : $line;
    }
}
