<?php

declare(strict_types=1);

namespace Pillion\Fallback\Schema;

/**
 * Reads the defaults of a schema as intended: PHP writes an empty map as `[]`.
 *
 * @internal
 */
final class Coercion
{
    private const SUBSCHEMAS = ['not', 'if', 'then', 'else', 'contains', 'propertyNames', 'additionalProperties', 'items'];
    private const LISTS = ['allOf', 'anyOf', 'oneOf', 'prefixItems'];
    private const MAPS = ['properties', 'patternProperties', '$defs', 'definitions'];

    /**
     * Returns a value as intended: `[]` becomes `{}` where the schema allows objects but not arrays, because
     * PHP arrays do not distinguish the two.
     */
    private static function coerce(SchemaLocation $location, mixed $value): mixed
    {
        if ($value === []) {
            return $location->allows('object') && !$location->allows('array') ? new \stdClass() : [];
        }
        if (is_array($value)) {
            foreach ($value as $index => $element) {
                $value[$index] = self::coerce($location->element($index), $element);
            }
            return $value;
        }
        if (!$value instanceof \stdClass) {
            return $value;
        }
        $location = $location->narrow($value);
        $coerced = new \stdClass();
        foreach (get_object_vars($value) as $name => $member) {
            $coerced->$name = self::coerce($location->member((string) $name), $member);
        }
        return $coerced;
    }

    /** Applies the intended reading to each `default` in a schema. */
    public static function coerceDefaults(\stdClass $root): void
    {
        self::coerceDefaultsOf($root, $root);
    }

    private static function coerceDefaultsOf(\stdClass $root, mixed $schema): void
    {
        if (!$schema instanceof \stdClass) {
            return;
        }
        $default = $schema->default ?? null;
        if (is_array($default) || $default instanceof \stdClass) {
            $schema->default = self::coerce(SchemaLocation::of($root, $schema), $default);
        }
        foreach (self::SUBSCHEMAS as $key) {
            self::coerceDefaultsOf($root, $schema->$key ?? null);
        }
        foreach ([...self::LISTS, ...self::MAPS] as $key) {
            $parts = $schema->$key ?? [];
            foreach (is_array($parts) || $parts instanceof \stdClass ? $parts : [] as $part) {
                self::coerceDefaultsOf($root, $part);
            }
        }
    }
}
