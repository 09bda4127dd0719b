<?php

declare(strict_types=1);

namespace Pillion\Fallback;

/**
 * Reads the content blocks of MCP results that are not text: encoded data become markers such as
 * `[image image/png, 8 bytes]`.
 *
 * @internal
 */
final class ResultMedia
{
    /** Maximum length of a URI, a name or a media type in a marker, in bytes. A URI may contain data. */
    private const MAX_SHOWN_BYTES = 512;

    /** Minimum length of text beside a media type that counts as encoded data, in characters. */
    private const MIN_DATA_LENGTH = 256;

    /**
     * Returns the text of an MCP result's content; null if no block is an image, audio, a resource
     * or a resource link.
     *
     * @param list<mixed> $blocks     trees
     * @param mixed       $structured the structured content as a tree, which follows blocks without text
     */
    public static function text(array $blocks, mixed $structured): ?string
    {
        $parts = array_map(self::part(...), $blocks);
        if (array_filter($parts, is_string(...)) === []) {
            return null;
        }
        $hasText = false;
        foreach ($blocks as $index => $block) {
            $isText = $block instanceof \stdClass && ($block->type ?? null) === 'text' && is_string($block->text ?? null);
            $hasText = $hasText || $isText;
            $parts[$index] ??= $isText ? $block->text : Json::encode(self::withoutData($block));
        }
        if (!$hasText && $structured !== null) {
            $parts[] = Json::encode(self::withoutData($structured));
        }
        return implode("\n", $parts);
    }

    /** Returns a tree with a marker in place of each encoded image, recording or file. */
    public static function withoutData(mixed $tree): mixed
    {
        if (is_array($tree)) {
            return array_map(self::withoutData(...), $tree);
        }
        if (!$tree instanceof \stdClass) {
            return $tree;
        }
        $copy = new \stdClass();
        foreach (get_object_vars($tree) as $name => $member) {
            $copy->{$name} = self::withoutData($member);
        }
        $kind = in_array($tree->type ?? null, ['image', 'audio'], true) ? $tree->type : null;
        $types = array_filter([$tree->mimeType ?? null, $tree->mime_type ?? null, $tree->media_type ?? null], is_string(...));
        $type = reset($types) ?: null;
        foreach (['data', 'blob'] as $name) {
            $data = $tree->{$name} ?? null;
            $isData = ($type ?? $kind) !== null && is_string($data) && strlen($data) >= self::MIN_DATA_LENGTH && self::isBase64($data);
            if ($isData) {
                $copy->{$name} = self::marker($kind ?? 'file', null, $type, $data);
            }
        }
        return $copy;
    }

    private static function part(mixed $block): ?string
    {
        if (!$block instanceof \stdClass) {
            return null;
        }
        $kind = $block->type ?? null;
        if ($kind === 'resource_link') {
            return self::link($block);
        }
        if ($kind === 'image' || $kind === 'audio') {
            return is_string($block->data ?? null) ? self::marker($kind, null, $block->mimeType ?? null, $block->data) : null;
        }
        $resource = $kind === 'resource' ? $block->resource ?? null : null;
        if (!$resource instanceof \stdClass || !is_string($resource->uri ?? null)) {
            return null;
        }
        if (is_string($resource->text ?? null)) {
            return '[resource ' . self::shown($resource->uri) . "]\n" . $resource->text;
        }
        $blob = $resource->blob ?? null;
        return is_string($blob) ? self::marker($kind, $resource->uri, $resource->mimeType ?? null, $blob) : null;
    }

    private static function link(\stdClass $block): ?string
    {
        $text = static fn (string $key): ?string => is_string($block->{$key} ?? null) ? self::shown($block->{$key}) : null;
        if ($text('uri') === null) {
            return null;
        }
        $words = '[resource link ' . $text('uri');
        $name = $text('title') ?? $text('name');
        $words .= $name === null ? '' : " $name";
        $words .= $text('mimeType') === null ? '' : ', ' . $text('mimeType');
        $size = $block->size ?? null;
        $words .= is_int($size) && $size >= 0 ? ", $size bytes]" : ']';
        return $words . (is_string($block->description ?? null) ? "\n$block->description" : '');
    }

    private static function marker(string $kind, ?string $uri, mixed $type, string $data): string
    {
        $type = is_string($type) ? self::shown($type) : 'application/octet-stream';
        $uri = $uri === null ? '' : ' ' . self::shown($uri);
        $bytes = intdiv(strlen(preg_replace('/[ \t\n\f\r=]+/', '', $data)) * 3, 4);
        return "[$kind$uri $type, $bytes bytes]";
    }

    private static function isBase64(string $text): bool
    {
        $text = preg_replace('/[ \t\n\f\r]+/', '', $text);
        $digits = rtrim($text, '=');
        $isPadded = strlen($text) - strlen($digits) <= 2;
        return $isPadded && strlen($digits) % 4 !== 1 && strspn($digits, 'ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/') === strlen($digits) && $digits !== '';
    }

    /** Returns a server's text on one line, cut if it is too long. */
    private static function shown(string $text): string
    {
        $start = substr($text, 0, self::MAX_SHOWN_BYTES);
        while (!Argument::isUtf8($start)) {
            $start = substr($start, 0, -1);
        }
        $line = preg_replace('/\p{Cc}/u', ' ', $start);
        return strlen($start) < strlen($text) ? "$line..." : $line;
    }
}
