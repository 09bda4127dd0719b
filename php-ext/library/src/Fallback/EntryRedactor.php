<?php

declare(strict_types=1);

namespace Pillion\Fallback;

/**
 * Removes the credentials from the entry of an MCP server, so that dumps can show the entry.
 *
 * @internal
 */
final class EntryRedactor
{
    private const REDACTED_VALUE = '[redacted]';
    /**
     * A pattern that matches keys whose whole value may be secret, and keys that contain a word for
     * credentials.
     */
    private const SECRET_KEY_PATTERN = '/^(authentication|cookie|env|headers|oauth)$|authorization|credential|key|passw|secret|token/i';
    private const HARMLESS_KEY = 'token_in_query';
    /**
     * Maximum nesting of an entry in a dump. The entry of a subclass may contain itself.
     */
    private const MAX_LEVELS = 16;

    /**
     * @param array<array-key, mixed> $entry
     *
     * @return array<array-key, mixed>
     */
    public static function redact(array $entry, int $remainingLevels = self::MAX_LEVELS): array
    {
        $redactedEntry = [];
        foreach ($entry as $key => $value) {
            $name = (string) $key;
            $isSecret = preg_match(self::SECRET_KEY_PATTERN, $name) === 1 && strtolower($name) !== self::HARMLESS_KEY;
            $redactedEntry[$name] = match (true) {
                $value === null, is_bool($value) => $value,
                $isSecret, $remainingLevels === 0 => self::REDACTED_VALUE,
                strtolower($name) === 'server_url' && is_string($value) => self::redactUrl($value),
                is_array($value) => self::redact($value, $remainingLevels - 1),
                default => $value,
            };
        }
        return $redactedEntry;
    }

    /** Returns a URL without its query, or a placeholder if the URL has credentials or cannot be parsed. */
    private static function redactUrl(string $url): string
    {
        $urlParts = parse_url($url);
        if (!isset($urlParts['scheme'], $urlParts['host']) || isset($urlParts['user']) || isset($urlParts['pass'])) {
            return self::REDACTED_VALUE;
        }
        return self::formatUrl($urlParts);
    }

    /**
     * Returns a URL without user, password, query and fragment.
     *
     * @param array{scheme: string, host: string, port?: int, path?: string, ...} $urlParts the result of `parse_url()`
     */
    public static function formatUrl(array $urlParts): string
    {
        $port = isset($urlParts['port']) ? ":{$urlParts['port']}" : '';
        return strtolower($urlParts['scheme']) . '://' . strtolower($urlParts['host']) . $port . ($urlParts['path'] ?? '/');
    }
}
