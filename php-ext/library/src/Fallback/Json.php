<?php

declare(strict_types=1);

namespace Pillion\Fallback;

use Pillion\Exception\InvalidInputException;
use Pillion\Exception\PillionException;

/**
 * Converts PHP values to and from JSON, by the same rules as the extension.
 *
 * A *JSON tree* is a decoded JSON value in which a list is an array and a map is a `stdClass`, so
 * that `[]` and `{}` remain distinct.
 *
 * @internal
 */
final class Json
{
    /** Maximum nesting of arrays and objects. */
    public const MAX_DEPTH = 128;

    /** The flags of `json_encode()` for all JSON of the library. */
    public const ENCODE_FLAGS = JSON_THROW_ON_ERROR | JSON_UNESCAPED_SLASHES | JSON_UNESCAPED_UNICODE
        | JSON_UNESCAPED_LINE_TERMINATORS | JSON_PRESERVE_ZERO_FRACTION;

    /**
     * @param string $valueName the name of the value in error messages
     *
     * @throws InvalidInputException for values that JSON cannot represent: text that is not UTF-8, NAN and INF,
     *                               resources, plain enums, more than 128 levels
     */
    public static function encode(mixed $value, string $valueName = 'value'): string
    {
        try {
            return json_encode($value, self::ENCODE_FLAGS, self::MAX_DEPTH);
        } catch (\JsonException $exception) {
            throw Failure::invalidInput(self::describeError($valueName, $exception));
        }
    }

    /**
     * Encodes the return value of a tool or callable. A value that cannot be converted to JSON is
     * an internal error of the tool or callable and not an error for invalid input.
     *
     * @throws PillionException with the code `internal_error`; `jsonSerialize()` may throw other exceptions
     */
    public static function encodeReturnValue(mixed $value): string
    {
        try {
            return json_encode($value, self::ENCODE_FLAGS, self::MAX_DEPTH);
        } catch (\JsonException $exception) {
            throw Failure::forCode('internal_error', self::describeError('value', $exception));
        }
    }

    /**
     * Encodes a value that must be a map. Works like {@see encode()}, except that an empty array
     * becomes `{}`.
     *
     * @param array<array-key, mixed> $arguments
     *
     * @throws InvalidInputException
     */
    public static function encodeArguments(array $arguments, string $valueName = 'value'): string
    {
        return $arguments === [] ? '{}' : self::encode($arguments, $valueName);
    }

    /**
     * Returns the text for a model: a string unchanged, any other value as JSON.
     *
     * @throws InvalidInputException
     */
    public static function toText(mixed $value): string
    {
        if (!is_string($value)) {
            return self::encode($value);
        }
        if (!Argument::isUtf8($value)) {
            throw Failure::invalidInput('The value is not JSON: the value contains text that is not valid UTF-8');
        }
        return $value;
    }

    /**
     * Converts a PHP value to a JSON tree.
     *
     * @throws InvalidInputException as {@see encode()}
     */
    public static function toTree(mixed $value, string $valueName = 'value'): mixed
    {
        if ($value === null || is_bool($value) || is_int($value)) {
            return $value;
        }
        try {
            return self::parse(self::encode($value, $valueName));
        } catch (\JsonException $exception) {
            throw Failure::invalidInput("The $valueName is not JSON: " . $exception->getMessage());
        }
    }

    /**
     * Parses JSON text to a JSON tree.
     *
     * @throws \JsonException
     */
    public static function parse(string $json): mixed
    {
        return json_decode($json, false, self::MAX_DEPTH, JSON_THROW_ON_ERROR);
    }

    /**
     * Converts a JSON tree for PHP code that reads it. Maps become arrays, as with the second
     * argument of `json_decode()`.
     */
    public static function toArrays(mixed $tree): mixed
    {
        if ($tree instanceof \stdClass) {
            $tree = get_object_vars($tree);
        }
        return is_array($tree) ? array_map(self::toArrays(...), $tree) : $tree;
    }

    /**
     * Converts a JSON tree for PHP code that may encode it as JSON again: maps become arrays,
     * except for a map that would become a list (such as an empty map), which remains a `stdClass`.
     */
    public static function toLosslessArrays(mixed $tree): mixed
    {
        if ($tree instanceof \stdClass) {
            $members = array_map(self::toLosslessArrays(...), get_object_vars($tree));
            return array_is_list($members) ? (object) $members : $members;
        }
        return is_array($tree) ? array_map(self::toLosslessArrays(...), $tree) : $tree;
    }

    /**
     * Converts a map like {@see toLosslessArrays()}, but always returns an array at the top level,
     * even if the map is empty.
     *
     * @return array<array-key, mixed>
     */
    public static function toMemberArrays(\stdClass $map): array
    {
        return array_map(self::toLosslessArrays(...), get_object_vars($map));
    }

    private static function describeError(string $valueName, \JsonException $exception): string
    {
        return "The $valueName is not JSON: " . match ($exception->getCode()) {
            JSON_ERROR_UTF8 => 'the value contains text that is not valid UTF-8',
            JSON_ERROR_INF_OR_NAN => 'the value contains NAN or INF',
            JSON_ERROR_UNSUPPORTED_TYPE => 'the value contains a resource',
            JSON_ERROR_NON_BACKED_ENUM => 'the value contains a non-backed enum',
            JSON_ERROR_DEPTH, JSON_ERROR_RECURSION => 'the value nests deeper than 128 levels, or contains itself',
            default => $exception->getMessage(),
        };
    }
}
