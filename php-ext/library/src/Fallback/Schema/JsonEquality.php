<?php

declare(strict_types=1);

namespace Pillion\Fallback\Schema;

/**
 * Compares two trees as JSON values: `1` equals `1.0`, and the order of members does not matter.
 *
 * @internal
 */
final class JsonEquality
{
    public static function equals(mixed $one, mixed $other): bool
    {
        if ((is_int($one) || is_float($one)) && (is_int($other) || is_float($other))) {
            return $one == $other;
        }
        if ($one instanceof \stdClass && $other instanceof \stdClass) {
            [$one, $other] = [get_object_vars($one), get_object_vars($other)];
        }
        if (!is_array($one) || !is_array($other)) {
            return $one === $other;
        }
        if (count($one) !== count($other)) {
            return false;
        }
        foreach ($one as $key => $member) {
            if (!array_key_exists($key, $other) || !self::equals($member, $other[$key])) {
                return false;
            }
        }
        return true;
    }

    /** @param list<mixed> $allowed */
    public static function equalsAny(array $allowed, mixed $value): bool
    {
        foreach ($allowed as $one) {
            if (self::equals($one, $value)) {
                return true;
            }
        }
        return false;
    }
}
