<?php

declare(strict_types=1);

namespace Pillion\Fallback\Schema;

use Pillion\Fallback\Json;

/**
 * Checks that a schema is well-formed: keywords have the right types, and references lead to schemas within
 * the schema.
 *
 * @internal
 */
final class SchemaChecker
{
    private const MAX_PARTS = 50_000;

    private const SUBSCHEMAS = ['not', 'if', 'then', 'else', 'contains', 'propertyNames', 'additionalProperties', 'items'];
    private const LISTS = ['allOf', 'anyOf', 'oneOf', 'prefixItems'];
    private const MAPS = ['properties', 'patternProperties', '$defs', 'definitions'];
    private const COUNTS = ['minLength', 'maxLength', 'minItems', 'maxItems', 'minProperties', 'maxProperties'];
    private const NUMBERS = ['minimum', 'maximum', 'exclusiveMinimum', 'exclusiveMaximum', 'multipleOf'];

    private int $parts = 0;
    /** @var array<int, true> object IDs of the visited parts */
    private array $seen = [];

    public function __construct(private readonly \stdClass $root)
    {
    }

    /** @throws SchemaError */
    public function check(): void
    {
        $this->checkSchema($this->root, '');
    }

    private function checkSchema(mixed $schema, string $path): void
    {
        if (is_bool($schema)) {
            return;
        }
        if (!$schema instanceof \stdClass) {
            throw new SchemaError($path, Json::encode($schema) . ' is not of types "boolean", "object"');
        }
        if (isset($this->seen[spl_object_id($schema)])) {
            return;
        }
        $this->seen[spl_object_id($schema)] = true;
        if (++$this->parts > self::MAX_PARTS) {
            throw new SchemaError('', 'the schema has too many subschemas or is nested too deeply');
        }
        $this->checkKeywords($schema, $path);
        $this->checkParts($schema, $path);
        $this->checkReference($schema);
    }

    private function checkKeywords(\stdClass $schema, string $path): void
    {
        if (isset($schema->type)) {
            $types = (array) $schema->type;
            $known = array_filter($types, static fn (mixed $type): bool => in_array($type, TypeKeyword::NAMES, true));
            if ($schema->type instanceof \stdClass || count($known) < count($types) || $types === []) {
                $reason = ' is not valid under any of the schemas listed in the \'anyOf\' keyword';
                throw new SchemaError("$path/type", Json::encode($schema->type) . $reason);
            }
        }
        foreach (['enum', 'required'] as $key) {
            $this->expect($schema, $path, $key, 'array', is_array(...));
        }
        foreach ($schema->required ?? [] as $index => $name) {
            if (!is_string($name)) {
                throw new SchemaError("$path/required/$index", Json::encode($name) . ' is not of type "string"');
            }
        }
        foreach (self::COUNTS as $key) {
            $this->expect($schema, $path, $key, 'integer', static fn (mixed $value): bool => TypeKeyword::fits('integer', $value));
            if (($schema->$key ?? 0) < 0) {
                throw new SchemaError("$path/$key", Json::encode($schema->$key) . ' is less than the minimum of 0');
            }
        }
        foreach (self::NUMBERS as $key) {
            $this->expect($schema, $path, $key, 'number', static fn (mixed $value): bool => is_int($value) || is_float($value));
        }
        if (($schema->multipleOf ?? 1) <= 0) {
            throw new SchemaError("$path/multipleOf", Json::encode($schema->multipleOf) . ' is less than or equal to the minimum of 0');
        }
        $this->expect($schema, $path, 'pattern', 'string', is_string(...));
        $this->checkPattern("$path/pattern", $schema->pattern ?? '');
    }

    private function checkParts(\stdClass $schema, string $path): void
    {
        foreach (self::SUBSCHEMAS as $key) {
            if (property_exists($schema, $key)) {
                $this->checkSchema($schema->$key, "$path/$key");
            }
        }
        foreach (self::LISTS as $key) {
            $this->expect($schema, $path, $key, 'array', is_array(...));
            foreach ($schema->$key ?? [] as $index => $part) {
                $this->checkSchema($part, "$path/$key/$index");
            }
        }
        $isMap = static fn (mixed $value): bool => $value instanceof \stdClass;
        foreach (self::MAPS as $key) {
            $this->expect($schema, $path, $key, 'object', $isMap);
            foreach ($schema->$key ?? [] as $name => $part) {
                if ($key === 'patternProperties') {
                    $this->checkPattern("$path/$key/$name", (string) $name);
                }
                $this->checkSchema($part, "$path/$key/" . strtr((string) $name, ['~' => '~0', '/' => '~1']));
            }
        }
        $this->expect($schema, $path, 'dependentRequired', 'object', $isMap);
        foreach ($schema->dependentRequired ?? [] as $name => $others) {
            if (!is_array($others) || array_filter($others, is_string(...)) !== $others) {
                throw new SchemaError("$path/dependentRequired/$name", 'it is not a list of names');
            }
        }
    }

    private function checkReference(\stdClass $schema): void
    {
        if (!isset($schema->{'$ref'})) {
            return;
        }
        $reference = $schema->{'$ref'};
        if (!is_string($reference) || !str_starts_with($reference, '#')) {
            throw new SchemaError('', 'a reference leads to another document');
        }
        $target = Pointer::find($this->root, $reference)
            ?? throw new SchemaError('', 'a $ref points to nothing');
        if (!$target instanceof \stdClass && !is_bool($target)) {
            throw new SchemaError('', 'a $ref points to something that is not a schema');
        }
        // The target may be in a location that the other checks do not visit.
        $this->checkSchema($target, $reference === '#' ? '' : substr($reference, 1));
    }

    private function expect(\stdClass $schema, string $path, string $key, string $type, callable $fits): void
    {
        if (property_exists($schema, $key) && !$fits($schema->$key)) {
            throw new SchemaError("$path/$key", Json::encode($schema->$key) . " is not of type \"$type\"");
        }
    }

    private function checkPattern(string $path, string $pattern): void
    {
        if (!Pattern::isValid($pattern)) {
            throw new SchemaError($path, Json::encode($pattern) . ' is not a "regex"');
        }
    }
}
