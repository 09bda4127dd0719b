<?php

declare(strict_types=1);

namespace Pillion\Fallback\Schema;

/**
 * The keyword `type`.
 *
 * @internal
 */
final class TypeKeyword
{
    /** In the order in which the engine lists types. */
    public const NAMES = ['null', 'boolean', 'integer', 'number', 'string', 'array', 'object'];

    /** @param string|list<string> $types */
    public static function fits(string|array $types, mixed $value): bool
    {
        foreach ((array) $types as $type) {
            $fits = match ($type) {
                'null' => $value === null,
                'boolean' => is_bool($value),
                // 5.0 is an integer, too.
                'integer' => is_int($value) || (is_float($value) && floor($value) === $value),
                'number' => is_int($value) || is_float($value),
                'string' => is_string($value),
                'array' => is_array($value),
                'object' => $value instanceof \stdClass,
                default => false,
            };
            if ($fits) {
                return true;
            }
        }
        return false;
    }

    /** @param string|list<string> $types */
    public static function text(string|array $types): string
    {
        return implode(' or ', array_intersect(self::NAMES, (array) $types));
    }
}
