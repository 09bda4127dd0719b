<?php

declare(strict_types=1);

namespace Pillion\Laravel;

use Illuminate\Contracts\Config\Repository;
use Pillion\Exception\InvalidInputException;
use Pillion\Laravel\Configuration\KnownSettings;
use SensitiveParameterValue;

/** Reads config/pillion.php; errors name the key of the invalid setting. */
final class ConfigReader
{
    /**
     * The configuration that was checked last, hidden from dumps. The cache avoids a check of the
     * whole configuration at each read.
     */
    private static ?SensitiveParameterValue $checkedSettings = null;

    /**
     * Returns a setting, after a check of the whole configuration: the application may have changed the
     * configuration since the service provider checked it.
     *
     * @throws InvalidInputException naming the key of an invalid setting, which may differ from `$key`
     */
    public static function read(Repository $config, string $key, mixed $default = null): mixed
    {
        $settings = $config->get('pillion', []);
        // An unchanged configuration is not checked again. PHP compares an array with itself by
        // address, which is fast.
        if (self::$checkedSettings?->getValue() !== $settings) {
            KnownSettings::checkAtRunTime($settings);
            self::$checkedSettings = new SensitiveParameterValue($settings);
        }
        return $config->get("pillion.$key", $default);
    }

    public static function readFlag(Repository $config, string $key): bool
    {
        return (bool) self::read($config, $key, false);
    }

    /** Returns a string, or null for a setting that is null or empty, as environment variables may be. */
    public static function readOptionalText(Repository $config, string $key): ?string
    {
        $value = self::read($config, $key);
        return is_string($value) && $value !== '' ? $value : null;
    }

    /**
     * @return array<array-key, mixed>
     *
     * @throws InvalidInputException when the setting is not an array
     */
    public static function readArray(Repository $config, string $key): array
    {
        $value = self::read($config, $key, []);
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
     * Converts a numeric string to a number, because settings from environment variables are
     * strings.
     */
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
        $value = self::toNumber(self::read($config, $key, $default));
        return is_int($value) && $value >= 0
            ? $value
            : throw new InvalidInputException("pillion.$key must be a whole number, at least 0");
    }

    /**
     * Returns the log channel; null for the application's default channel, false for no log.
     */
    public static function readLogChannel(Repository $config): string|false|null
    {
        return self::read($config, 'log.channel') === false ? false : self::readOptionalText($config, 'log.channel');
    }

    /**
     * Returns a positive whole number, or null for no limit.
     *
     * @throws InvalidInputException when the setting is neither a positive whole number nor null
     */
    public static function readLimit(Repository $config, string $key): ?int
    {
        $value = self::toNumber(self::read($config, $key));
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
