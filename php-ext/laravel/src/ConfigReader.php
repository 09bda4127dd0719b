<?php

declare(strict_types=1);

namespace Pillion\Laravel;

use Illuminate\Contracts\Config\Repository;
use Pillion\Exception\InvalidInputException;

/** Reads config/pillion.php; errors name the key of the invalid setting. */
final class ConfigReader
{
    /**
     * @return array<array-key, mixed>
     *
     * @throws InvalidInputException when the setting is not an array
     */
    public static function readArray(Repository $config, string $key): array
    {
        $value = $config->get("pillion.$key", []);
        return is_array($value) ? $value : throw self::invalid($key, 'must be an array', $value);
    }

    /**
     * Returns strings by name, or a list of strings.
     *
     * @return array<array-key, string>
     *
     * @throws InvalidInputException when an entry is not a string
     */
    public static function readStrings(Repository $config, string $key): array
    {
        $strings = self::readArray($config, $key);
        foreach ($strings as $name => $string) {
            if (!is_string($string)) {
                throw self::invalid("$key.$name", 'must be a string', $string);
            }
        }
        return $strings;
    }

    /**
     * Checks that a setting has only these keys: a misspelt key would have no effect.
     *
     * @param list<string> $known
     *
     * @throws InvalidInputException naming the unknown key
     */
    public static function checkKeys(Repository $config, string $key, array $known): void
    {
        $unknown = array_diff(array_map('strval', array_keys(self::readArray($config, $key))), $known);
        if ($unknown !== []) {
            $name = reset($unknown);
            throw new InvalidInputException("pillion.$key.$name is unknown: expected one of " . implode(', ', $known));
        }
    }

    /** Converts a numeric string to a number: settings from the environment are strings. */
    public static function toNumber(mixed $value): mixed
    {
        return is_string($value) && is_numeric($value) ? $value + 0 : $value;
    }

    /**
     * Converts the numeric strings of an array and of the arrays in it.
     *
     * @param array<array-key, mixed> $values
     *
     * @return array<array-key, mixed>
     */
    public static function toNumbers(array $values): array
    {
        return array_map(fn (mixed $value) => is_array($value) ? self::toNumbers($value) : self::toNumber($value), $values);
    }

    /**
     * @throws InvalidInputException when the setting is not a whole number, or is below zero
     */
    public static function readWholeNumber(Repository $config, string $key, int $default): int
    {
        $value = self::toNumber($config->get("pillion.$key", $default));
        return is_int($value) && $value >= 0
            ? $value
            : throw new InvalidInputException("pillion.$key must be a whole number, at least 0");
    }

    /**
     * Returns the log channel; null for the application's default channel, false for no log.
     *
     * @throws InvalidInputException when the setting is none of these
     */
    public static function readLogChannel(Repository $config): string|false|null
    {
        $channel = $config->get('pillion.log.channel');
        if ($channel !== null && $channel !== false && !is_string($channel)) {
            throw self::invalid('log.channel', 'must be the name of a channel, null or false', $channel);
        }
        return $channel === '' ? null : $channel;
    }

    /**
     * Returns a positive whole number, or null for no limit.
     *
     * @throws InvalidInputException when the setting is neither of these
     */
    public static function readLimit(Repository $config, string $key): ?int
    {
        $value = self::toNumber($config->get("pillion.$key"));
        if ($value === null || (is_int($value) && $value > 0)) {
            return $value;
        }
        throw new InvalidInputException("pillion.$key must be a whole number above zero, or null");
    }

    public static function invalid(string $key, string $requirement, mixed $value): InvalidInputException
    {
        return new InvalidInputException("pillion.$key $requirement, not " . get_debug_type($value));
    }
}
