<?php

declare(strict_types=1);

namespace Pillion\Fallback;

use Pillion\Exception\InvalidInputException;
use Pillion\ToolDefinition;

/**
 * Converts a definition's parameters: a JSON Schema, or a list of parameters.
 *
 * @internal
 */
final class InputSchema
{
    private const TYPES = ['string', 'number', 'integer', 'boolean', 'array', 'object'];

    /**
     * Returns the value for {@see ToolDefinition::$parameters}: the given schema, or a schema built from the
     * list of parameters.
     *
     * @param array<array-key, mixed> $parameters
     *
     * @return array<string, mixed>
     *
     * @throws InvalidInputException
     */
    public static function read(string $tool, array $parameters): array
    {
        $tree = Json::toTree($parameters, 'argument $parameters');
        if ($tree instanceof \stdClass) {
            self::complete($tree) ?? throw Failure::invalidInput("$tool: The parameters must be a JSON Schema of type object");
            return $parameters;
        }
        $properties = $required = [];
        foreach ($tree as $parameter) {
            [$name, $property, $isRequired] = self::parameter($parameter);
            if (array_key_exists($name, $properties)) {
                throw Failure::invalidInput("$tool: Duplicate parameter names found");
            }
            $properties[$name] = Json::toArrays($property);
            if ($isRequired) {
                $required[] = $name;
            }
        }
        return ['type' => 'object', 'properties' => $properties, 'required' => $required];
    }

    /** Returns a definition's schema as a tree. */
    public static function tree(ToolDefinition $definition): \stdClass
    {
        $tree = Json::toTree($definition->parameters);
        return self::complete($tree instanceof \stdClass ? $tree : new \stdClass()) ?? new \stdClass();
    }

    /**
     * Adds missing `type` and `properties`; returns null for a value that is not the schema of an object. PHP
     * writes an empty map as `[]`, so `[]` means `{}` here.
     */
    private static function complete(\stdClass $schema): ?\stdClass
    {
        $schema->type ??= 'object';
        $properties = $schema->properties ?? [];
        if ($schema->type !== 'object' || !($properties instanceof \stdClass || $properties === [])) {
            return null;
        }
        $schema->properties = $properties === [] ? new \stdClass() : $properties;
        return $schema;
    }

    /** @return array{string, array<string, mixed>, bool} the name, the property's schema, and whether the property is required */
    private static function parameter(mixed $parameter): array
    {
        if (!$parameter instanceof \stdClass) {
            throw self::invalid('each must be an array with a name and a type');
        }
        $text = static fn (string $key): string => match (true) {
            !isset($parameter->$key) => throw self::invalid("missing field `$key`"),
            !is_string($parameter->$key) => throw self::invalid("'$key' must be a string"),
            default => $parameter->$key,
        };
        $name = $text('name');
        $type = strtolower($text('type'));
        if (!in_array($type, self::TYPES, true)) {
            throw self::invalid("Unknown parameter type '{$parameter->type}': use string, number, integer, boolean, array or object");
        }
        $property = ['type' => $type];
        if (isset($parameter->description)) {
            $property['description'] = $text('description');
        }
        $enum = $parameter->enum ?? [];
        if (!is_array($enum)) {
            throw self::invalid("'enum' must be a list");
        }
        if ($enum !== []) {
            $property['enum'] = $enum;
        }
        if (isset($parameter->default)) {
            $property['default'] = $parameter->default;
        }
        $required = property_exists($parameter, 'required') ? $parameter->required : true;
        if (!is_bool($required)) {
            throw self::invalid("'required' must be true or false");
        }
        return [$name, $property, $required];
    }

    private static function invalid(string $reason): InvalidInputException
    {
        return Failure::invalidInput("The parameters are not valid: $reason");
    }
}
