<?php

declare(strict_types=1);

namespace Pillion\Laravel\Tests\Support;

use Pillion\Laravel\Configuration\KnownSettings;
use Pillion\Laravel\Configuration\Setting;

/** A configuration with every known key, and the mistakes that a person can make in one of the keys. */
final class MutatedSettings
{
    /** @return array<string, mixed> values of each type, by what a test calls them */
    public static function values(): array
    {
        return [
            'null' => null,
            'an empty string' => '',
            'text' => 'zz',
            'a number as text' => '7',
            'true' => true,
            'false' => false,
            'zero' => 0,
            'a number' => 7,
            'a negative number' => -7,
            'a fraction' => 7.5,
            'an empty array' => [],
            'a list of texts' => ['zz'],
            'a list of numbers' => [7],
            'a list of null' => [null],
            'texts by name' => ['zz' => 'zz'],
            'null by name' => ['zz' => null],
            'arrays by name' => ['zz' => ['zz' => 'zz']],
            'an object' => new \stdClass(),
        ];
    }

    /** @return array<string, mixed> a valid configuration in which every key that the package knows is set */
    public static function complete(): array
    {
        return self::sample(KnownSettings::all());
    }

    /**
     * Returns the paths of all keys, of groups and of their members, also in the entries of servers and models.
     *
     * @param array<string, mixed> $settings
     * @param list<string>         $parents
     *
     * @return list<list<string>>
     */
    public static function paths(array $settings, array $parents = []): array
    {
        $paths = [];
        foreach ($settings as $key => $value) {
            if (!is_string($key)) {
                continue;
            }
            // The names of servers, tools and models are the application's own.
            if ($key !== 'own') {
                $paths[] = [...$parents, $key];
            }
            if (is_array($value)) {
                array_push($paths, ...self::paths($value, [...$parents, $key]));
            }
        }
        return $paths;
    }

    /**
     * Misspells a key in the ways that people do.
     *
     * @return iterable<string, string>
     */
    public static function misspellings(string $key): iterable
    {
        $camel = lcfirst(str_replace('_', '', ucwords($key, '_')));
        yield 'a letter is missing' => strlen($key) > 2 ? substr($key, 0, -1) : "{$key}x";
        yield 'the first letter is missing' => strlen($key) > 3 ? substr($key, 1) : "{$key}x";
        yield 'a letter too many' => "{$key}s";
        yield 'two letters are swapped' => $key[1] . $key[0] . substr($key, 2);
        yield 'a capital' => ucfirst($key);
        yield 'a space' => "$key ";
        yield 'a hyphen' => strtr($key, '_', '-');
        yield 'camel case' => $camel;
        yield 'another letter' => substr_replace($key, 'x', 1, 1);
    }

    /**
     * @param array<string, mixed> $settings
     * @param list<string>         $path
     *
     * @return array<string, mixed> the settings without the key
     */
    public static function without(array $settings, array $path): array
    {
        $group = &$settings;
        foreach (array_slice($path, 0, -1) as $key) {
            $group = &$group[$key];
        }
        unset($group[end($path)]);
        return $settings;
    }

    /**
     * @param array<string, mixed> $settings
     * @param list<string>         $path
     *
     * @return array<string, mixed> the settings with the value under the key
     */
    public static function with(array $settings, array $path, mixed $value): array
    {
        $place = &$settings;
        foreach ($path as $key) {
            $place = &$place[$key];
        }
        $place = $value;
        return $settings;
    }

    /** @param list<string> $path */
    public static function get(array $settings, array $path): mixed
    {
        return array_reduce($path, fn (array $group, string $key) => $group[$key], $settings);
    }

    /**
     * @param array<string, Setting> $group
     *
     * @return array<string, mixed>
     */
    private static function sample(array $group): array
    {
        $values = [];
        foreach ($group as $key => $setting) {
            // Changes of these keys are left out, because they change the meaning of the keys
            // beside them.
            if ($key === 'class' || ($key === 'tools' && isset($group['enabled_tools']))) {
                continue;
            }
            $values[$key] = match (true) {
                $setting->members() !== [] => self::sample($setting->members()),
                $setting->itemSetting() !== null => self::sampleOfEach($setting),
                default => self::firstValid($setting),
            };
        }
        return $values;
    }

    private static function sampleOfEach(Setting $setting): array
    {
        $itemSetting = $setting->itemSetting();
        $item = $itemSetting->members() === [] ? self::firstValid($itemSetting) : self::sample($itemSetting->members());
        return self::isValid($setting, ['own' => $item]) ? ['own' => $item] : [$item];
    }

    private static function firstValid(Setting $setting): mixed
    {
        foreach (['7', 'auto', 'never', 'process', 'cache', 'info', 7, true, []] as $candidate) {
            if (self::isValid($setting, $candidate)) {
                return $candidate;
            }
        }
        throw new \LogicException('No sample is valid');
    }

    private static function isValid(Setting $setting, mixed $value): bool
    {
        try {
            $setting->check('sample', $value);
            return true;
        } catch (\Pillion\Exception\InvalidInputException) {
            return false;
        }
    }
}
