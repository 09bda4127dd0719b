<?php

declare(strict_types=1);

namespace Pillion\Laravel\Configuration;

use Closure;
use Pillion\Exception\InvalidInputException;
use Pillion\Fallback\NearestKey;

/** The values that config/pillion.php may contain under one key. */
final class Setting
{
    /**
     * @param string                    $expected  completes the sentence "... must be"
     * @param Closure(mixed): bool      $accepts
     * @param array<string, self>       $members   the keys of a group
     * @param ?self                     $itemSetting the setting for each value of a map or a list
     * @param ?Closure(array<array-key, mixed>): bool $allowsUnknownKeys whether a group may have unknown keys
     * @param ?Closure(array<array-key, mixed>, string): void $extraCheck another check of the value, given its path
     */
    private function __construct(
        private readonly string $expected,
        private readonly Closure $accepts,
        private readonly array $members = [],
        private readonly ?self $itemSetting = null,
        private readonly ?Closure $allowsUnknownKeys = null,
        private readonly ?Closure $extraCheck = null,
        private readonly bool $showsValue = false,
    ) {
    }

    public static function text(string $expected = 'a string that is not empty'): self
    {
        return new self($expected, fn (mixed $value) => is_string($value) && $value !== '');
    }

    /**
     * Creates a setting for a flag of a model: a boolean, or one of the values that environment
     * variables and databases use for booleans. Null means false.
     */
    public static function modelFlag(): self
    {
        $acceptedValues = [null, true, false, 0, 1, 'true', 'false', '0', '1', ''];
        return new self('a boolean', fn (mixed $value) => in_array(is_string($value) ? strtolower(trim($value)) : $value, $acceptedValues, true));
    }

    /**
     * Creates a setting for a text that an environment variable may leave unset (null) or empty.
     */
    public static function optionalText(string $expected = 'a string or null'): self
    {
        return new self($expected, fn (mixed $value) => $value === null || is_string($value));
    }

    public static function choice(string ...$values): self
    {
        $lastValue = array_pop($values);
        $expected = implode(', ', $values) . " or $lastValue";
        return new self($expected, fn (mixed $value) => in_array($value, [...$values, $lastValue], true), showsValue: true);
    }

    public static function flag(): self
    {
        return new self('true or false', fn (mixed $value) => in_array($value, [true, false, 0, 1, '0', '1'], true));
    }

    /**
     * Creates a setting for a flag that must be a boolean, because the class that reads the setting
     * forwards the value unchanged.
     */
    public static function boolean(): self
    {
        return new self('true or false', is_bool(...));
    }

    public static function seconds(): self
    {
        return new self('a number of seconds', fn (mixed $value) => self::isNumber($value) && $value >= 0);
    }

    public static function number(): self
    {
        return new self('a number', self::isNumber(...));
    }

    public static function wholeNumber(int $minimum = 0, string $expected = 'a whole number, at least 0'): self
    {
        return new self($expected, fn (mixed $value) => self::isWholeNumber($value) && $value >= $minimum);
    }

    /** Creates a setting for a maximum; null means no limit. */
    public static function limit(int $minimum, string $expected): self
    {
        return new self($expected, fn (mixed $value) => $value === null || (self::isWholeNumber($value) && $value >= $minimum));
    }

    /**
     * Creates a setting for a list of strings. The keys of the list may have gaps, as after
     * `array_filter()`.
     */
    public static function names(): self
    {
        return new self('an array', is_array(...), itemSetting: self::string(), extraCheck: self::rejectNames(...));
    }

    public static function string(): self
    {
        return new self('a string', is_string(...));
    }

    /** Creates a setting for an array whose contents another class checks. */
    public static function anyArray(): self
    {
        return new self('an array', is_array(...));
    }

    /**
     * Creates a setting for a map whose keys are names that the application chooses.
     *
     * @param ?Closure(array<array-key, mixed>, string): void $extraCheck
     */
    public static function map(self $itemSetting, ?Closure $extraCheck = null): self
    {
        return new self('an array', is_array(...), itemSetting: $itemSetting, extraCheck: function (array $value, string $path) use ($extraCheck): void {
            self::rejectList($value, $path);
            if ($extraCheck !== null) {
                $extraCheck($value, $path);
            }
        });
    }

    /**
     * @param array<string, self>                             $members
     * @param ?Closure(array<array-key, mixed>): bool         $allowsUnknownKeys whether the group may have unknown keys
     * @param ?Closure(array<array-key, mixed>, string): void $extraCheck
     */
    public static function group(array $members, ?Closure $allowsUnknownKeys = null, ?Closure $extraCheck = null): self
    {
        return new self('an array', is_array(...), $members, allowsUnknownKeys: $allowsUnknownKeys, extraCheck: $extraCheck);
    }

    /**
     * Returns a copy of this setting that also accepts the values for which `$accepts` returns
     * true, such as `false` in place of an array.
     *
     * @param Closure(mixed): bool $accepts
     */
    public function withAlternative(string $expected, Closure $accepts): self
    {
        $acceptsEither = fn (mixed $value) => ($this->accepts)($value) || $accepts($value);
        return new self($expected, $acceptsEither, $this->members, $this->itemSetting, $this->allowsUnknownKeys, $this->extraCheck);
    }

    /** @return array<string, self> the keys of a group */
    public function members(): array
    {
        return $this->members;
    }

    /** Returns the setting for each value of a map or a list. */
    public function itemSetting(): ?self
    {
        return $this->itemSetting;
    }

    /**
     * @param string $path the full key: `pillion.approvals.policy`
     *
     * @throws InvalidInputException naming the full key, what is expected and, for an unknown key, the nearest known key
     */
    public function check(string $path, #[\SensitiveParameter] mixed $value): void
    {
        if (!($this->accepts)($value)) {
            $foundValue = $this->showsValue && is_string($value) ? "'$value'" : get_debug_type($value);
            throw new InvalidInputException("$path must be $this->expected, not $foundValue");
        }
        if (!is_array($value)) {
            return;
        }
        if ($this->members !== []) {
            $this->checkMembers($path, $value);
        }
        foreach ($this->itemSetting === null ? [] : $value as $name => $item) {
            $this->itemSetting->check("$path.$name", $item);
        }
        if ($this->extraCheck !== null) {
            ($this->extraCheck)($value, $path);
        }
    }

    /** @param array<array-key, mixed> $group */
    private function checkMembers(string $path, #[\SensitiveParameter] array $group): void
    {
        $allowsUnknownKeys = $this->allowsUnknownKeys !== null && ($this->allowsUnknownKeys)($group);
        foreach ($group as $key => $value) {
            $key = (string) $key;
            $member = $this->members[$key] ?? null;
            if ($member !== null) {
                $member->check("$path.$key", $value);
                continue;
            }
            $nearestKey = NearestKey::find($key, array_keys($this->members));
            if (!$allowsUnknownKeys || $nearestKey !== null) {
                throw self::unknownKey("$path.$key", array_keys($this->members), $nearestKey ?? KnownSettings::findElsewhere($key));
            }
        }
    }

    /** @param list<string> $knownKeys */
    private static function unknownKey(string $path, array $knownKeys, ?string $nearestKey): InvalidInputException
    {
        $hint = $nearestKey === null ? '' : "; did you mean '$nearestKey'?";
        return new InvalidInputException("$path is unknown: expected one of " . implode(', ', $knownKeys) . $hint);
    }

    /** @param array<array-key, mixed> $value */
    private static function rejectNames(#[\SensitiveParameter] array $value, string $path): void
    {
        foreach (array_keys($value) as $key) {
            if (is_string($key)) {
                throw new InvalidInputException("$path.$key is unknown: $path must be a list");
            }
        }
    }

    /**
     * @param array<array-key, mixed> $value
     *
     * @throws InvalidInputException when the keys are not names
     */
    public static function rejectList(#[\SensitiveParameter] array $value, string $path): void
    {
        if ($value !== [] && array_is_list($value)) {
            throw new InvalidInputException("$path must be an array with string keys, not a list");
        }
    }

    /**
     * Returns whether a value is a number, or a numeric string, as settings from the environment
     * are.
     */
    private static function isNumber(mixed $value): bool
    {
        return is_int($value) || is_float($value) || (is_string($value) && is_numeric($value));
    }

    private static function isWholeNumber(mixed $value): bool
    {
        return is_int($value) || (is_string($value) && is_numeric($value) && is_int($value + 0));
    }
}
