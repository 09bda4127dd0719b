<?php

declare(strict_types=1);

namespace Pillion\Fallback\Schema;

/**
 * The constraints that a schema puts on one location in a value, as a set of alternatives. Conservative like
 * the engine: where the schema is too complex to evaluate (patterns, conditions), any value is allowed.
 *
 * @internal
 */
final class SchemaLocation
{
    /** Maximum numbers of alternatives and of schema levels; beyond them any value is allowed. */
    private const MAX_ALTERNATIVES = 64;
    private const MAX_LEVELS = 32;
    /** Maximum number of schemas visited for one value. */
    private const MAX_STEPS = 100_000;

    private const TYPES = ['null', 'boolean', 'number', 'string', 'array', 'object'];

    /** @param list<list<\stdClass>> $alternatives alternatives; a value must match all schemas of one of them */
    private function __construct(
        private readonly \stdClass $root,
        private array $alternatives,
        private readonly \ArrayObject $steps,
    ) {
    }

    /** Returns the location that only `$schema`, a part of `$root`, describes. */
    public static function of(\stdClass $root, mixed $schema): self
    {
        $location = new self($root, [], new \ArrayObject(['left' => self::MAX_STEPS]));
        $location->alternatives = $location->expand($schema, 0);
        return $location;
    }

    /** Returns the location of a member of objects at this location. */
    public function member(string $name): self
    {
        return $this->children(function (\stdClass $schema) use ($name): array {
            if (($schema->properties ?? null) instanceof \stdClass && property_exists($schema->properties, $name)) {
                return $this->expand($schema->properties->$name, 1);
            }
            $either = property_exists($schema, 'additionalProperties') ? $this->expand($schema->additionalProperties, 1) : [[]];
            // Every pattern counts, whether or not the name matches it.
            foreach ($schema->patternProperties ?? [] as $byPattern) {
                $either = array_merge($either, $this->expand($byPattern, 1));
            }
            return self::capped($either);
        });
    }

    /** Returns the location of an element of lists at this location. */
    public function element(int $index): self
    {
        return $this->children(function (\stdClass $schema) use ($index): array {
            $items = $schema->items ?? true;
            $tuple = $schema->prefixItems ?? $items;
            $own = is_array($tuple) ? $tuple[$index] ?? null : null;
            return $this->expand($own ?? (is_array($items) ? true : $items), 1);
        });
    }

    /** Returns whether a value at this location may have the type; integers count as `number`. */
    public function allows(string $type): bool
    {
        foreach ($this->alternatives as $alternative) {
            $all = array_map(static fn (\stdClass $schema): bool => in_array($type, self::types($schema), true), $alternative);
            if (!in_array(false, $all, true)) {
                return true;
            }
        }
        return false;
    }

    /** Removes the alternatives that an object certainly does not match, unless it matches none. */
    public function narrow(\stdClass $value): self
    {
        $matching = array_values(array_filter(
            $this->alternatives,
            static fn (array $all): bool => !in_array(false, array_map(static fn (\stdClass $schema): bool => self::mayMatch($schema, $value), $all), true),
        ));
        return new self($this->root, $matching === [] ? $this->alternatives : $matching, $this->steps);
    }

    /** @param \Closure(\stdClass): list<list<\stdClass>> $alternativesOf */
    private function children(\Closure $alternativesOf): self
    {
        $found = [];
        foreach ($this->alternatives as $alternative) {
            $all = [[]];
            foreach ($alternative as $schema) {
                $all = $this->combine($all, $alternativesOf($schema));
            }
            $found = array_merge($found, $all);
        }
        return new self($this->root, self::capped($found), $this->steps);
    }

    /** @return list<list<\stdClass>> */
    private function expand(mixed $schema, int $level): array
    {
        if (!$schema instanceof \stdClass) {
            return $schema === false ? [] : [[]];
        }
        if ($level > self::MAX_LEVELS || --$this->steps['left'] <= 0) {
            return [[]];
        }
        $found = [[$schema]];
        if (isset($schema->{'$ref'})) {
            $found = $this->combine($found, $this->expand(Pointer::find($this->root, $schema->{'$ref'}), $level + 1));
        }
        foreach ($schema->allOf ?? [] as $part) {
            $found = $this->combine($found, $this->expand($part, $level + 1));
        }
        foreach (['anyOf', 'oneOf'] as $keyword) {
            if (isset($schema->$keyword)) {
                $either = array_map(fn (mixed $part): array => $this->expand($part, $level + 1), $schema->$keyword);
                $found = $this->combine($found, self::capped(array_merge(...$either)));
            }
        }
        return $found;
    }

    /**
     * @param list<list<\stdClass>> $one
     * @param list<list<\stdClass>> $other
     *
     * @return list<list<\stdClass>>
     */
    private function combine(array $one, array $other): array
    {
        if (count($one) * count($other) > self::MAX_ALTERNATIVES) {
            return [[]];
        }
        $found = [];
        foreach ($one as $schemas) {
            foreach ($other as $others) {
                $found[] = array_merge($schemas, $others);
            }
        }
        return $found;
    }

    /**
     * @param list<list<\stdClass>> $alternatives
     *
     * @return list<list<\stdClass>>
     */
    private static function capped(array $alternatives): array
    {
        return count($alternatives) > self::MAX_ALTERNATIVES ? [[]] : $alternatives;
    }

    /** @return list<string> */
    private static function types(\stdClass $schema): array
    {
        $types = isset($schema->type)
            ? array_map(static fn (string $type): string => $type === 'integer' ? 'number' : $type, (array) $schema->type)
            : self::TYPES;
        if (property_exists($schema, 'const')) {
            $types = array_intersect($types, [self::typeOf($schema->const)]);
        }
        return array_values(isset($schema->enum) ? array_intersect($types, array_map(self::typeOf(...), $schema->enum)) : $types);
    }

    private static function typeOf(mixed $value): string
    {
        return match (true) {
            $value === null => 'null',
            is_bool($value) => 'boolean',
            is_string($value) => 'string',
            is_array($value) => 'array',
            $value instanceof \stdClass => 'object',
            default => 'number',
        };
    }

    /**
     * Returns whether the object has the required members, and matches the string constants that distinguish
     * alternatives.
     */
    private static function mayMatch(\stdClass $schema, \stdClass $value): bool
    {
        foreach ($schema->properties ?? [] as $name => $property) {
            $constant = $value->$name ?? null;
            if (!is_string($constant) || !$property instanceof \stdClass) {
                continue;
            }
            $allowed = $property->enum ?? [$constant];
            if ((property_exists($property, 'const') && $property->const !== $constant) || !in_array($constant, $allowed, true)) {
                return false;
            }
        }
        foreach ($schema->required ?? [] as $name) {
            if (!property_exists($value, $name)) {
                return false;
            }
        }
        return in_array('object', self::types($schema), true);
    }
}
