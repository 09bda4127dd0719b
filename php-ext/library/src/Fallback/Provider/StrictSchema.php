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
final class StrictSchema
{
    /** OpenAI's limits, for one schema. */
    private const MAX_PROPERTIES = 5_000;
    private const MAX_LEVELS = 10;
    private const MAX_VALUES = 1_000;
    private const MAX_CHARACTERS = 120_000;

    /** Annotations, which do not restrict values. OpenAI rejects some of them. */
    private const ANNOTATIONS = ['$comment', '$schema', 'default', 'deprecated', 'examples', 'readOnly', 'writeOnly'];
    private const SUPPORTED_KEYWORDS = [
        'const', 'description', 'exclusiveMaximum', 'exclusiveMinimum', 'maxItems', 'maximum', 'minItems', 'minimum',
        'multipleOf', 'pattern', 'title', 'type',
    ];
    private const SUPPORTED_FORMATS = ['date', 'date-time', 'duration', 'email', 'hostname', 'ipv4', 'ipv6', 'time', 'uuid'];
    private const OBJECT_KEYWORDS = ['properties', 'required', 'additionalProperties'];

    private int $properties = 0;
    private int $values = 0;
    private int $characters = 0;

    private function __construct()
    {
    }

    /** @return array{\stdClass, bool} the schema for OpenAI, and whether `strict` applies */
    public static function parameters(ToolDefinition $definition): array
    {
        $strict = $definition->strict ? self::convertRoot(InputSchema::tree($definition)) : null;
        return [$strict ?? InputSchema::withRequired($definition), $strict !== null];
    }

    /** Returns null if the strict form cannot express the schema. */
    private static function convertRoot(\stdClass $schema): ?\stdClass
    {
        if (array_intersect(['anyOf', 'enum', 'const', '$ref'], array_keys(get_object_vars($schema))) !== []) {
            return null;
        }
        try {
            return (new self())->convert($schema, 0, isRoot: true);
        } catch (\DomainException) {
            return null;
        }
    }

    /** @throws \DomainException */
    private function convert(mixed $schema, int $level, bool $isRoot = false): \stdClass
    {
        self::require($schema instanceof \stdClass && $level <= self::MAX_LEVELS);
        $keywords = array_map(strval(...), array_keys(get_object_vars($schema)));
        self::require(count(array_intersect(['type', 'anyOf', '$ref'], $keywords)) === 1);
        $converted = new \stdClass();
        foreach ($keywords as $keyword) {
            $value = $schema->$keyword;
            if (in_array($keyword, [...self::ANNOTATIONS, ...self::OBJECT_KEYWORDS], true)) {
                continue;
            }
            $converted->$keyword = match (true) {
                in_array($keyword, self::SUPPORTED_KEYWORDS, true), $keyword === 'format' && in_array($value, self::SUPPORTED_FORMATS, true) => $value,
                $keyword === 'enum' => $this->countValues($value),
                $keyword === '$ref' => self::checkReference($value),
                $keyword === 'anyOf' && is_array($value) && $value !== [] => array_map(fn (mixed $part): \stdClass => $this->convert($part, $level), $value),
                $keyword === 'items' => $this->convert($value, $level + 1),
                $isRoot && in_array($keyword, ['$defs', 'definitions'], true) && $value instanceof \stdClass => $this->convertDefinitions($value),
                default => throw new \DomainException(),
            };
        }
        $types = (array) ($schema->type ?? []);
        self::require(!in_array('array', $types, true) || property_exists($schema, 'items'));
        if (in_array('object', $types, true)) {
            $this->convertObject($schema, $level, $isRoot, $converted);
        } else {
            self::require(array_intersect(self::OBJECT_KEYWORDS, $keywords) === []);
        }
        if (property_exists($converted, '$ref') && count(get_object_vars($converted)) > 1) {
            // A `$ref` must not have sibling keywords.
            $converted->anyOf = [(object) ['$ref' => $converted->{'$ref'}]];
            unset($converted->{'$ref'});
        }
        self::require($this->properties <= self::MAX_PROPERTIES && $this->values <= self::MAX_VALUES && $this->characters <= self::MAX_CHARACTERS);
        return $converted;
    }

    private function convertObject(\stdClass $schema, int $level, bool $isRoot, \stdClass $converted): void
    {
        self::require(($schema->properties ?? null) === null || $schema->properties instanceof \stdClass);
        $properties = get_object_vars($schema->properties ?? new \stdClass());
        // Only the root may be an object without properties: a tool without parameters.
        self::require(property_exists($schema, 'additionalProperties') ? $schema->additionalProperties === false : $isRoot || $properties !== []);
        $required = $schema->required ?? [];
        self::require(is_array($required));
        foreach ($required as $name) {
            self::require(is_string($name) && array_key_exists($name, $properties));
        }
        $this->properties += count($properties);
        $all = new \stdClass();
        foreach ($properties as $name => $property) {
            $name = (string) $name;
            $this->characters += strlen($name);
            $property = $this->convert($property, $level + 1);
            $all->$name = in_array($name, $required, true) ? $property : self::makeNullable($property);
        }
        $converted->properties = $all;
        $converted->required = array_map(strval(...), array_keys($properties));
        $converted->additionalProperties = false;
    }

    private function convertDefinitions(\stdClass $definitions): \stdClass
    {
        $converted = new \stdClass();
        foreach (get_object_vars($definitions) as $name => $part) {
            $this->characters += strlen((string) $name);
            $converted->$name = $this->convert($part, 1);
        }
        return $converted;
    }

    /** @return non-empty-list<mixed> */
    private function countValues(mixed $values): array
    {
        self::require(is_array($values) && $values !== []);
        $this->values += count($values);
        $this->characters += array_sum(array_map(strlen(...), array_filter($values, is_string(...))));
        return $values;
    }

    /** Allows only references to definitions, which stay valid in the converted schema. */
    private static function checkReference(mixed $target): string
    {
        self::require(is_string($target) && preg_match('~^#(/(\$defs|definitions)/[^/]*)?$~D', $target) === 1);
        return $target;
    }

    /** Returns a schema that also allows null. */
    private static function makeNullable(\stdClass $schema): \stdClass
    {
        $null = (object) ['type' => 'null'];
        if (isset($schema->anyOf)) {
            $nullBranches = array_filter($schema->anyOf, static fn (\stdClass $part): bool => in_array('null', (array) ($part->type ?? []), true));
            $schema->anyOf = $nullBranches === [] ? [...$schema->anyOf, $null] : $schema->anyOf;
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

    private static function require(bool $condition): void
    {
        if (!$condition) {
            throw new \DomainException();
        }
    }
}
