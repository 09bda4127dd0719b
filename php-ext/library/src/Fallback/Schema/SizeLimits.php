<?php

declare(strict_types=1);

namespace Pillion\Fallback\Schema;

use Pillion\Fallback\Json;

/**
 * Checks the keywords that limit size and range, with their messages.
 *
 * @internal
 */
final class SizeLimits
{
    /** @return iterable<string> */
    public static function ofNumber(\stdClass $schema, int|float $value): iterable
    {
        $limit = static fn (string $key): string => Json::encode($schema->$key);
        if (isset($schema->minimum) && $value < $schema->minimum) {
            yield "the value is less than the minimum of {$limit('minimum')}";
        }
        if (isset($schema->maximum) && $value > $schema->maximum) {
            yield "the value is greater than the maximum of {$limit('maximum')}";
        }
        if (isset($schema->exclusiveMinimum) && $value <= $schema->exclusiveMinimum) {
            yield "the value is less than or equal to the minimum of {$limit('exclusiveMinimum')}";
        }
        if (isset($schema->exclusiveMaximum) && $value >= $schema->exclusiveMaximum) {
            yield "the value is greater than or equal to the maximum of {$limit('exclusiveMaximum')}";
        }
        if (isset($schema->multipleOf) && !self::isMultiple($value, $schema->multipleOf)) {
            yield "the value is not a multiple of {$limit('multipleOf')}";
        }
    }

    /** @return iterable<string> */
    public static function ofText(\stdClass $schema, string $value): iterable
    {
        if (isset($schema->minLength) || isset($schema->maxLength)) {
            // Counts characters: bytes that do not continue a UTF-8 sequence.
            $length = strlen((string) preg_replace('/[\x80-\xbf]+/', '', $value));
            yield from self::size($schema, 'Length', $length, 'longer', 'shorter', 'character', 's', '');
        }
        if (isset($schema->pattern) && !Pattern::matches($schema->pattern, $value)) {
            yield "the value does not match \"$schema->pattern\"";
        }
    }

    /**
     * @param list<mixed> $value
     *
     * @return iterable<string>
     */
    public static function ofList(\stdClass $schema, array $value): iterable
    {
        yield from self::size($schema, 'Items', count($value), 'has more', 'has less', 'item', 's', '');
        if (($schema->uniqueItems ?? false) === true && self::hasDuplicates($value)) {
            yield 'the value has non-unique elements';
        }
    }

    /** @return iterable<string> */
    public static function ofMap(\stdClass $schema, \stdClass $value): iterable
    {
        $count = count(get_object_vars($value));
        yield from self::size($schema, 'Properties', $count, 'has more', 'has less', 'propert', 'ies', 'y');
    }

    /** @return iterable<string> */
    private static function size(
        \stdClass $schema,
        string $keyword,
        int $size,
        string $more,
        string $less,
        string $noun,
        string $plural,
        string $singular,
    ): iterable {
        $is = str_starts_with($more, 'has') ? '' : 'is ';
        foreach (["min$keyword" => [$less, -1], "max$keyword" => [$more, 1]] as $key => [$comparison, $sign]) {
            if (isset($schema->$key) && ($size <=> $schema->$key) === $sign) {
                $limit = (int) $schema->$key;
                yield "the value $is$comparison than $limit $noun" . ($limit === 1 ? $singular : $plural);
            }
        }
    }

    private static function isMultiple(int|float $value, int|float $divisor): bool
    {
        if (is_int($value) && is_int($divisor)) {
            return $value % $divisor === 0;
        }
        $quotient = $value / $divisor;
        return abs($quotient - round($quotient)) < 1e-9 * max(1.0, abs($quotient));
    }

    /** @param list<mixed> $values */
    private static function hasDuplicates(array $values): bool
    {
        $seen = [];
        foreach ($values as $value) {
            // Strings, booleans and null are compared as text; numbers, lists and maps need a deep
            // comparison.
            if (is_string($value) || is_bool($value) || $value === null) {
                $key = Json::encode($value);
                if (isset($seen[$key])) {
                    return true;
                }
                $seen[$key] = true;
            }
        }
        $others = array_values(array_filter($values, static fn (mixed $value): bool => !is_string($value) && !is_bool($value) && $value !== null));
        foreach ($others as $index => $value) {
            if (JsonEquality::equalsAny(array_slice($others, $index + 1), $value)) {
                return true;
            }
        }
        return false;
    }
}
