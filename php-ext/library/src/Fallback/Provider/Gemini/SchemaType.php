<?php

declare(strict_types=1);

namespace Pillion\Fallback\Provider\Gemini;

/**
 * A type of Gemini's `Schema`, except `null`, which is expressed as `nullable`.
 *
 * @internal
 */
enum SchemaType: string
{
    case String = 'string';
    case Number = 'number';
    case Integer = 'integer';
    case Boolean = 'boolean';
    case Array = 'array';
    case Object = 'object';

    /**
     * Returns the type-dependent keywords, with a check for each value. Only scalar defaults are allowed,
     * because Gemini ignores other defaults.
     *
     * @return array<string, callable(mixed): bool>
     */
    public function keywords(): array
    {
        $isCount = static fn (mixed $value): bool => is_int($value) && $value >= 0;
        $isNumber = static fn (mixed $value): bool => is_int($value) || is_float($value);
        $oneOf = static fn (string ...$names): \Closure => static fn (mixed $value): bool => in_array($value, $names, true);
        return match ($this) {
            self::String => [
                'default' => is_string(...),
                'format' => $oneOf('date-time'),
                'minLength' => $isCount,
                'maxLength' => $isCount,
                'pattern' => is_string(...),
            ],
            self::Number => [
                'default' => $isNumber,
                'format' => $oneOf('float', 'double'),
                'minimum' => $isNumber,
                'maximum' => $isNumber,
            ],
            self::Integer => [
                'default' => is_int(...),
                'format' => $oneOf('int32', 'int64'),
                'minimum' => $isNumber,
                'maximum' => $isNumber,
            ],
            self::Boolean => ['default' => is_bool(...)],
            self::Array => ['minItems' => $isCount, 'maxItems' => $isCount],
            self::Object => ['minProperties' => $isCount, 'maxProperties' => $isCount],
        };
    }

    /** Returns the type that the keywords of a node without a type imply. */
    public static function impliedBy(ResolvedSchema $node): self
    {
        $bounds = ['minimum', 'maximum', 'exclusiveMinimum', 'exclusiveMaximum'];
        return match (true) {
            $node->properties !== [], $node->has('additionalProperties') => self::Object,
            $node->items() !== null => self::Array,
            $node->values() !== null => self::ofValues($node->values()),
            array_filter($bounds, $node->has(...)) !== [] => self::Number,
            default => self::String,
        };
    }

    /** Returns the type of a node that is converted without details. */
    public static function ofCutNode(mixed $schema): self
    {
        $type = $schema instanceof \stdClass ? $schema->type ?? null : null;
        return (is_string($type) ? self::tryFrom(strtolower($type)) : null) ?? self::Object;
    }

    /** @return array{list<self>, bool} the declared types of a node, and whether they include `null` */
    public static function declaredBy(ResolvedSchema $node): array
    {
        $type = $node->get('type');
        $names = array_map(strtolower(...), array_filter(is_array($type) ? $type : [$type], is_string(...)));
        $kinds = [];
        foreach (self::cases() as $kind) {
            // `number` already covers every integer.
            $isCovered = $kind === self::Integer && in_array('number', $names, true);
            if (in_array($kind->value, $names, true) && !$isCovered) {
                $kinds[] = $kind;
            }
        }
        return [$kinds, in_array('null', $names, true)];
    }

    /** @param list<mixed> $values */
    private static function ofValues(array $values): self
    {
        $all = static function (callable $fits) use ($values): bool {
            foreach ($values as $value) {
                if ($value !== null && !$fits($value)) {
                    return false;
                }
            }
            return true;
        };
        return match (true) {
            $all(is_string(...)) => self::String,
            $all(is_int(...)) => self::Integer,
            $all(static fn (mixed $value): bool => is_int($value) || is_float($value)) => self::Number,
            $all(is_bool(...)) => self::Boolean,
            default => self::String,
        };
    }
}
