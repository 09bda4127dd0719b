<?php

declare(strict_types=1);

namespace Pillion\Fallback\Schema;

/**
 * Reads values that do not match their schema as written but whose intent is clear.
 *
 * @internal
 */
final class Meaning
{
    private const PARTS = ['not', 'if', 'then', 'else', 'contains', 'propertyNames', 'additionalProperties', 'items'];
    private const LISTS = ['allOf', 'anyOf', 'oneOf', 'prefixItems'];
    private const MAPS = ['properties', 'patternProperties', '$defs', 'definitions'];

    /**
     * Returns a value as intended: `[]` becomes `{}` where the schema allows objects but not arrays, because
     * PHP arrays do not distinguish the two; an optional member that is null but may not be null is removed.
     *
     * @param bool $dropsNulls whether null may mean that a member is omitted: with OpenAI's
     *                         `strict`, models omit members that way
     */
    public static function of(Place $place, mixed $value, bool $dropsNulls): mixed
    {
        if ($value === []) {
            return $place->allows('object') && !$place->allows('array') ? new \stdClass() : [];
        }
        if (is_array($value)) {
            foreach ($value as $index => $element) {
                $value[$index] = self::of($place->element($index), $element, $dropsNulls);
            }
            return $value;
        }
        if (!$value instanceof \stdClass) {
            return $value;
        }
        $place = $place->narrow($value);
        $meant = new \stdClass();
        foreach (get_object_vars($value) as $name => $member) {
            $name = (string) $name;
            $below = $place->member($name);
            if (!$dropsNulls || $member !== null || $below->allows('null') || $place->requires($name)) {
                $meant->$name = self::of($below, $member, $dropsNulls);
            }
        }
        return $meant;
    }

    /** Applies the intended reading to each `default` in a schema. */
    public static function ofDefaults(\stdClass $root): void
    {
        self::defaults($root, $root);
    }

    private static function defaults(\stdClass $root, mixed $schema): void
    {
        if (!$schema instanceof \stdClass) {
            return;
        }
        $default = $schema->default ?? null;
        if (is_array($default) || $default instanceof \stdClass) {
            $schema->default = self::of(Place::of($root, $schema), $default, false);
        }
        foreach (self::PARTS as $key) {
            self::defaults($root, $schema->$key ?? null);
        }
        foreach ([...self::LISTS, ...self::MAPS] as $key) {
            $parts = $schema->$key ?? [];
            foreach (is_array($parts) || $parts instanceof \stdClass ? $parts : [] as $part) {
                self::defaults($root, $part);
            }
        }
    }
}
