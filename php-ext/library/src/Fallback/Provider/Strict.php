<?php

declare(strict_types=1);

namespace Pillion\Fallback\Provider;

use Pillion\Fallback\InputSchema;
use Pillion\ToolDefinition;

/**
 * Converts schemas to the form that OpenAI's `strict` requires: every object is closed, every property is
 * required, optional properties are nullable, and only supported keywords remain.
 *
 * @internal
 */
final class Strict
{
    /** OpenAI's limits, for one schema. */
    private const MAX_PROPERTIES = 5_000;
    private const MAX_LEVELS = 10;
    private const MAX_VALUES = 1_000;
    private const MAX_CHARACTERS = 120_000;

    /** Annotations, which do not restrict values. OpenAI rejects some of them. */
    private const NOTES = ['$comment', '$schema', 'default', 'deprecated', 'examples', 'readOnly', 'writeOnly'];
    private const KEPT = [
        'const', 'description', 'exclusiveMaximum', 'exclusiveMinimum', 'maxItems', 'maximum', 'minItems', 'minimum',
        'multipleOf', 'pattern', 'title', 'type',
    ];
    private const FORMATS = ['date', 'date-time', 'duration', 'email', 'hostname', 'ipv4', 'ipv6', 'time', 'uuid'];
    private const OF_OBJECTS = ['properties', 'required', 'additionalProperties'];

    private int $properties = 0;
    private int $values = 0;
    private int $characters = 0;

    private function __construct()
    {
    }

    /** @return array{\stdClass, bool} the schema for OpenAI, and whether `strict` applies */
    public static function parameters(ToolDefinition $definition): array
    {
        $strict = $definition->strict ? self::of(InputSchema::tree($definition)) : null;
        return [$strict ?? InputSchema::withRequired($definition), $strict !== null];
    }

    /** Returns null if the strict form cannot express the schema. */
    private static function of(\stdClass $schema): ?\stdClass
    {
        if (array_intersect(['anyOf', 'enum', 'const', '$ref'], array_keys(get_object_vars($schema))) !== []) {
            return null;
        }
        try {
            return (new self())->part($schema, 0, isRoot: true);
        } catch (\DomainException) {
            return null;
        }
    }

    /** @throws \DomainException */
    private function part(mixed $schema, int $level, bool $isRoot = false): \stdClass
    {
        self::hold($schema instanceof \stdClass && $level <= self::MAX_LEVELS);
        $keywords = array_map(strval(...), array_keys(get_object_vars($schema)));
        self::hold(count(array_intersect(['type', 'anyOf', '$ref'], $keywords)) === 1);
        $written = new \stdClass();
        foreach ($keywords as $keyword) {
            $value = $schema->$keyword;
            if (in_array($keyword, [...self::NOTES, ...self::OF_OBJECTS], true)) {
                continue;
            }
            $written->$keyword = match (true) {
                in_array($keyword, self::KEPT, true), $keyword === 'format' && in_array($value, self::FORMATS, true) => $value,
                $keyword === 'enum' => $this->values($value),
                $keyword === '$ref' => self::reference($value),
                $keyword === 'anyOf' && is_array($value) && $value !== [] => array_map(fn (mixed $part): \stdClass => $this->part($part, $level), $value),
                $keyword === 'items' => $this->part($value, $level + 1),
                $isRoot && in_array($keyword, ['$defs', 'definitions'], true) && $value instanceof \stdClass => $this->definitions($value),
                default => throw new \DomainException(),
            };
        }
        $types = (array) ($schema->type ?? []);
        self::hold(!in_array('array', $types, true) || property_exists($schema, 'items'));
        if (in_array('object', $types, true)) {
            $this->object($schema, $level, $isRoot, $written);
        } else {
            self::hold(array_intersect(self::OF_OBJECTS, $keywords) === []);
        }
        if (property_exists($written, '$ref') && count(get_object_vars($written)) > 1) {
            // A `$ref` must not have sibling keywords.
            $written->anyOf = [(object) ['$ref' => $written->{'$ref'}]];
            unset($written->{'$ref'});
        }
        self::hold($this->properties <= self::MAX_PROPERTIES && $this->values <= self::MAX_VALUES && $this->characters <= self::MAX_CHARACTERS);
        return $written;
    }

    private function object(\stdClass $schema, int $level, bool $isRoot, \stdClass $written): void
    {
        self::hold(($schema->properties ?? null) === null || $schema->properties instanceof \stdClass);
        $properties = get_object_vars($schema->properties ?? new \stdClass());
        // Only the root may be an object without properties: a tool without parameters.
        self::hold(property_exists($schema, 'additionalProperties') ? $schema->additionalProperties === false : $isRoot || $properties !== []);
        $required = $schema->required ?? [];
        self::hold(is_array($required));
        foreach ($required as $name) {
            self::hold(is_string($name) && array_key_exists($name, $properties));
        }
        $this->properties += count($properties);
        $all = new \stdClass();
        foreach ($properties as $name => $property) {
            $name = (string) $name;
            $this->characters += strlen($name);
            $property = $this->part($property, $level + 1);
            $all->$name = in_array($name, $required, true) ? $property : self::nullable($property);
        }
        $written->properties = $all;
        $written->required = array_map(strval(...), array_keys($properties));
        $written->additionalProperties = false;
    }

    private function definitions(\stdClass $definitions): \stdClass
    {
        $written = new \stdClass();
        foreach (get_object_vars($definitions) as $name => $part) {
            $this->characters += strlen((string) $name);
            $written->$name = $this->part($part, 1);
        }
        return $written;
    }

    /** @return non-empty-list<mixed> */
    private function values(mixed $values): array
    {
        self::hold(is_array($values) && $values !== []);
        $this->values += count($values);
        $this->characters += array_sum(array_map(strlen(...), array_filter($values, is_string(...))));
        return $values;
    }

    /** Allows only references to definitions, which stay valid in the converted schema. */
    private static function reference(mixed $target): string
    {
        self::hold(is_string($target) && preg_match('~^#(/(\$defs|definitions)/[^/]*)?$~D', $target) === 1);
        return $target;
    }

    /** Returns a schema that also allows null. */
    private static function nullable(\stdClass $schema): \stdClass
    {
        $null = (object) ['type' => 'null'];
        if (isset($schema->anyOf)) {
            $knowsNull = array_filter($schema->anyOf, static fn (\stdClass $part): bool => in_array('null', (array) ($part->type ?? []), true));
            $schema->anyOf = $knowsNull === [] ? [...$schema->anyOf, $null] : $schema->anyOf;
            return $schema;
        }
        $types = (array) ($schema->type ?? []);
        if ($types === [] || property_exists($schema, 'const')) {
            return (object) ['anyOf' => [$schema, $null]];
        }
        $schema->type = in_array('null', $types, true) ? $schema->type : [...$types, 'null'];
        if (isset($schema->enum) && !in_array(null, $schema->enum, true)) {
            $schema->enum = [...$schema->enum, null];
        }
        return $schema;
    }

    private static function hold(bool $holds): void
    {
        if (!$holds) {
            throw new \DomainException();
        }
    }
}
