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
    private const TYPE_NAMES = ['string', 'number', 'integer', 'boolean', 'array', 'object'];

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
    public static function read(string $toolName, array $parameters): array
    {
        $tree = Json::toTree($parameters, 'argument $parameters');
        if ($tree instanceof \stdClass) {
            self::addMissingMembers($tree) ?? throw Failure::invalidInput("$toolName: The parameters must be a JSON Schema of type object");
            return $parameters;
        }
        $properties = $requiredNames = [];
        foreach ($tree as $parameter) {
            [$name, $propertySchema, $isRequired] = self::parseParameter($parameter);
            if (array_key_exists($name, $properties)) {
                throw Failure::invalidInput("$toolName: Duplicate parameter names found");
            }
            $properties[$name] = Json::toArrays($propertySchema);
            if ($isRequired) {
                $requiredNames[] = $name;
            }
        }
        return ['type' => 'object', 'properties' => $properties, 'required' => $requiredNames];
    }

    /** Returns a definition's schema as a JSON tree. */
    public static function toTree(ToolDefinition $definition): \stdClass
    {
        $tree = Json::toTree($definition->parameters);
        return self::addMissingMembers($tree instanceof \stdClass ? $tree : new \stdClass()) ?? new \stdClass();
    }

    /**
     * Adds `type` and `properties` to a schema that lacks them; returns null for a value that is
     * not the schema of an object. PHP writes an empty map as `[]`, so `properties` may be `[]` for
     * `{}`.
     */
    private static function addMissingMembers(\stdClass $schema): ?\stdClass
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
    private static function parseParameter(mixed $parameter): array
    {
        if (!$parameter instanceof \stdClass) {
            throw self::invalidParameters('each parameter must be an array with a name and a type');
        }
        $readText = static fn (string $key): string => match (true) {
            !isset($parameter->$key) => throw self::invalidParameters("missing field `$key`"),
            !is_string($parameter->$key) => throw self::invalidParameters("'$key' must be a string"),
            default => $parameter->$key,
        };
        $name = $readText('name');
        $type = strtolower($readText('type'));
        if (!in_array($type, self::TYPE_NAMES, true)) {
            throw self::invalidParameters("Unknown parameter type '{$parameter->type}': use string, number, integer, boolean, array or object");
        }
        $propertySchema = ['type' => $type];
        if (isset($parameter->description)) {
            $propertySchema['description'] = $readText('description');
        }
        $enum = $parameter->enum ?? [];
        if (!is_array($enum)) {
            throw self::invalidParameters("'enum' must be a list");
        }
        if ($enum !== []) {
            $propertySchema['enum'] = $enum;
        }
        if (isset($parameter->default)) {
            $propertySchema['default'] = $parameter->default;
        }
        $isRequired = property_exists($parameter, 'required') ? $parameter->required : true;
        if (!is_bool($isRequired)) {
            throw self::invalidParameters("'required' must be true or false");
        }
        return [$name, $propertySchema, $isRequired];
    }

    private static function invalidParameters(string $reason): InvalidInputException
    {
        return Failure::invalidInput("The parameters are not valid: $reason");
    }
}
