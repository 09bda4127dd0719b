<?php

declare(strict_types=1);

namespace Pillion\Fallback;

use Pillion\Exception\InvalidInputException;
use Pillion\Exception\PillionException;

/**
 * Converts PHP values to and from JSON, by the same rules as the extension.
 *
 * A *tree* is a JSON value in which a list is an array and a map is a `stdClass`, so that `[]` and `{}`
 * remain distinct.
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
     * @param string $what the name of the value in error messages
     *
     * @throws InvalidInputException for values that JSON cannot represent: text that is not UTF-8, NAN and INF,
     *                               resources, plain enums, more than 128 levels
     */
    public static function encode(mixed $value, string $what = 'value'): string
    {
        try {
            return json_encode($value, self::ENCODE_FLAGS, self::MAX_DEPTH);
        } catch (\JsonException $e) {
            throw Failure::invalidInput(self::describeError($what, $e));
        }
    }

    /**
     * Encodes the return value of a tool or callable. A value that cannot be converted to JSON is an error of the
     * tool or callable, not invalid input.
     *
     * @throws PillionException with the code `internal_error`; `jsonSerialize()` may throw other exceptions
     */
    public static function encodeReturnValue(mixed $value): string
    {
        try {
            return json_encode($value, self::ENCODE_FLAGS, self::MAX_DEPTH);
        } catch (\JsonException $e) {
            throw Failure::forCode('internal_error', self::describeError('value', $e));
        }
    }

    /**
     * Encodes a value that must be a map like {@see encode()}: an empty array becomes `{}`.
     *
     * @param array<array-key, mixed> $arguments
     *
     * @throws InvalidInputException
     */
    public static function encodeArguments(array $arguments, string $what = 'value'): string
    {
        return $arguments === [] ? '{}' : self::encode($arguments, $what);
    }

    /**
     * Returns the text for a model: a string unchanged, any other value as JSON.
     *
     * @throws InvalidInputException
     */
    public static function text(mixed $value): string
    {
        if (!is_string($value)) {
            return self::encode($value);
        }
        if (!Argument::isUtf8($value)) {
            throw Failure::invalidInput('The value is not JSON: it holds text that is not valid UTF-8');
        }
        return $value;
    }

    /**
     * Converts a PHP value to a tree.
     *
     * @throws InvalidInputException as {@see encode()}
     */
    public static function toTree(mixed $value, string $what = 'value'): mixed
    {
        if ($value === null || is_bool($value) || is_int($value)) {
            return $value;
        }
        try {
            return self::parse(self::encode($value, $what));
        } catch (\JsonException $e) {
            throw Failure::invalidInput("The $what is not JSON: " . $e->getMessage());
        }
    }

    /**
     * Parses JSON text to a tree.
     *
     * @throws \JsonException
     */
    public static function parse(string $json): mixed
    {
        return json_decode($json, false, self::MAX_DEPTH, JSON_THROW_ON_ERROR);
    }

    /** Converts a tree for PHP code that reads it: maps become arrays, like `json_decode($json, true)`. */
    public static function toArrays(mixed $tree): mixed
    {
        if ($tree instanceof \stdClass) {
            $tree = get_object_vars($tree);
        }
        return is_array($tree) ? array_map(self::toArrays(...), $tree) : $tree;
    }

    /**
     * Converts a tree for PHP code that sends it on: maps become arrays, but a map that would then be a list, such as
     * an empty map, remains a `stdClass`.
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
     * Converts a map like {@see toLosslessArrays()}, but always returns an array for the map itself, even when it is
     * empty.
     *
     * @return array<array-key, mixed>
     */
    public static function memberArrays(\stdClass $map): array
    {
        return array_map(self::toLosslessArrays(...), get_object_vars($map));
    }

    private static function describeError(string $what, \JsonException $e): string
    {
        return "The $what is not JSON: " . match ($e->getCode()) {
            JSON_ERROR_UTF8 => 'it holds text that is not valid UTF-8',
            JSON_ERROR_INF_OR_NAN => 'it holds NAN or INF',
            JSON_ERROR_UNSUPPORTED_TYPE => 'it holds a resource',
            JSON_ERROR_NON_BACKED_ENUM => 'it holds an enum without values',
            JSON_ERROR_DEPTH, JSON_ERROR_RECURSION => 'it nests deeper than 128 levels, or contains itself',
            default => $e->getMessage(),
        };
    }
}
