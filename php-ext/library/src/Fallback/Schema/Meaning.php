<?php

declare(strict_types=1);

namespace Pillion\Fallback\Schema;

/**
 * Values that do not fit their schema as they are written, but say clearly what is meant.
 *
 * @internal
 */
final class Meaning
{
    private const PARTS = ['not', 'if', 'then', 'else', 'contains', 'propertyNames', 'additionalProperties', 'items'];
    private const LISTS = ['allOf', 'anyOf', 'oneOf', 'prefixItems'];
    private const MAPS = ['properties', 'patternProperties', '$defs', 'definitions'];

    /**
     * A value as it is meant: `[]` is `{}` where the schema allows objects and no arrays, for
     * PHP's arrays do not tell the two apart; and an optional member that may not be null is left
     * out if it is.
     *
     * @param bool $dropsNulls whether null may mean that a member is left out: with OpenAI's
     *                         `strict` that is how a model says so
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

    /** Reads each `default` in a schema so. */
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
