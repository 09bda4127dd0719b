<?php

declare(strict_types=1);

namespace Pillion\Laravel;

use Illuminate\Contracts\Config\Repository;
use Pillion\Exception\InvalidInputException;

/** Reads config/pillion.php; errors name the key of the invalid setting. */
final class Configured
{
    /**
     * @return array<array-key, mixed>
     *
     * @throws InvalidInputException when the setting is not an array
     */
    public static function array(Repository $config, string $key): array
    {
        $value = $config->get("pillion.$key", []);
        return is_array($value) ? $value : throw self::wrong($key, 'must be an array', $value);
    }

    /**
     * Returns strings by name, or a list of strings.
     *
     * @return array<array-key, string>
     *
     * @throws InvalidInputException when an entry is not a string
     */
    public static function texts(Repository $config, string $key): array
    {
        $texts = self::array($config, $key);
        foreach ($texts as $name => $text) {
            if (!is_string($text)) {
                throw self::wrong("$key.$name", 'must be a text', $text);
            }
        }
        return $texts;
    }

    /** Converts a numeric string to a number: settings from the environment are strings. */
    public static function number(mixed $value): mixed
    {
        return is_string($value) && is_numeric($value) ? $value + 0 : $value;
    }

    /**
     * Returns a positive whole number, or null for no limit.
     *
     * @throws InvalidInputException when the setting is neither of these
     */
    public static function limit(Repository $config, string $key): ?int
    {
        $value = self::number($config->get("pillion.$key"));
        if ($value === null || (is_int($value) && $value > 0)) {
            return $value;
        }
        throw new InvalidInputException("pillion.$key must be a whole number above zero, or null");
    }

    public static function wrong(string $key, string $what, mixed $value): InvalidInputException
    {
        return new InvalidInputException("pillion.$key $what, not " . get_debug_type($value));
    }
}
