<?php

declare(strict_types=1);

namespace Pillion\Fallback;

/**
 * Shows the entry of an MCP server in dumps, without credentials.
 *
 * @internal
 */
final class Shown
{
    private const REDACTED = '[redacted]';
    /** Keys whose whole value may be secret, and parts of other keys that name credentials. */
    private const SECRET = '/^(authentication|cookie|env|headers|oauth)$|authorization|credential|key|passw|secret|token/i';
    private const HARMLESS = 'token_in_query';
    /** Maximum nesting of a shown entry: the entry of a subclass may contain itself. */
    private const LEVELS = 16;

    /**
     * @param array<array-key, mixed> $entry
     *
     * @return array<array-key, mixed>
     */
    public static function entry(array $entry, int $levels = self::LEVELS): array
    {
        $shown = [];
        foreach ($entry as $name => $value) {
            $name = (string) $name;
            $isSecret = preg_match(self::SECRET, $name) === 1 && strtolower($name) !== self::HARMLESS;
            $shown[$name] = match (true) {
                $value === null, is_bool($value) => $value,
                $isSecret, $levels === 0 => self::REDACTED,
                strtolower($name) === 'server_url' && is_string($value) => self::url($value),
                is_array($value) => self::entry($value, $levels - 1),
                default => $value,
            };
        }
        return $shown;
    }

    /** Returns a URL without its query, or a placeholder if the URL has credentials or cannot be parsed. */
    private static function url(string $url): string
    {
        $parts = parse_url($url);
        if (!isset($parts['scheme'], $parts['host']) || isset($parts['user']) || isset($parts['pass'])) {
            return self::REDACTED;
        }
        $port = isset($parts['port']) ? ":{$parts['port']}" : '';
        return strtolower($parts['scheme']) . '://' . strtolower($parts['host']) . $port . ($parts['path'] ?? '/');
    }
}
