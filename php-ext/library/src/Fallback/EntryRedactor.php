<?php

declare(strict_types=1);

namespace Pillion\Fallback;

/**
 * Shows the entry of an MCP server in dumps, without credentials.
 *
 * @internal
 */
final class EntryRedactor
{
    private const REDACTED = '[redacted]';
    /** Keys whose whole value may be secret, and parts of other keys that name credentials. */
    private const SECRET_KEYS = '/^(authentication|cookie|env|headers|oauth)$|authorization|credential|key|passw|secret|token/i';
    private const HARMLESS_KEY = 'token_in_query';
    /**
     * Maximum nesting of an entry in a dump, because the entry of a subclass may contain itself.
     */
    private const MAX_LEVELS = 16;

    /**
     * @param array<array-key, mixed> $entry
     *
     * @return array<array-key, mixed>
     */
    public static function redact(array $entry, int $levels = self::MAX_LEVELS): array
    {
        $redacted = [];
        foreach ($entry as $name => $value) {
            $name = (string) $name;
            $isSecret = preg_match(self::SECRET_KEYS, $name) === 1 && strtolower($name) !== self::HARMLESS_KEY;
            $redacted[$name] = match (true) {
                $value === null, is_bool($value) => $value,
                $isSecret, $levels === 0 => self::REDACTED,
                strtolower($name) === 'server_url' && is_string($value) => self::redactUrl($value),
                is_array($value) => self::redact($value, $levels - 1),
                default => $value,
            };
        }
        return $redacted;
    }

    /** Returns a URL without its query, or a placeholder if the URL has credentials or cannot be parsed. */
    private static function redactUrl(string $url): string
    {
        $parts = parse_url($url);
        if (!isset($parts['scheme'], $parts['host']) || isset($parts['user']) || isset($parts['pass'])) {
            return self::REDACTED;
        }
        return self::formatUrl($parts);
    }

    /**
     * Returns a URL without user, password, query and fragment.
     *
     * @param array{scheme: string, host: string, port?: int, path?: string, ...} $parts of `parse_url()`
     */
    public static function formatUrl(array $parts): string
    {
        $port = isset($parts['port']) ? ":{$parts['port']}" : '';
        return strtolower($parts['scheme']) . '://' . strtolower($parts['host']) . $port . ($parts['path'] ?? '/');
    }
}
