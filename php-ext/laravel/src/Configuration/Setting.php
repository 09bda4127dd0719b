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
     * @param ?self                     $each      what the values of a map or a list may be
     * @param ?Closure(array<array-key, mixed>): bool $isOpen whether a group may have keys of the application
     * @param ?Closure(array<array-key, mixed>, string): void $rule another check of the value, given its path
     */
    private function __construct(
        private readonly string $expected,
        private readonly Closure $accepts,
        private readonly array $members = [],
        private readonly ?self $each = null,
        private readonly ?Closure $isOpen = null,
        private readonly ?Closure $rule = null,
        private readonly bool $showsValue = false,
    ) {
    }

    public static function text(string $expected = 'a string that is not empty'): self
    {
        return new self($expected, fn (mixed $value) => is_string($value) && $value !== '');
    }

    /**
     * Creates a setting for a flag of a model, in the forms that environment variables and
     * databases produce; null is false.
     */
    public static function modelFlag(): self
    {
        $forms = [null, true, false, 0, 1, 'true', 'false', '0', '1', ''];
        return new self('a boolean', fn (mixed $value) => in_array(is_string($value) ? strtolower(trim($value)) : $value, $forms, true));
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
        $last = array_pop($values);
        $expected = implode(', ', $values) . " or $last";
        return new self($expected, fn (mixed $value) => in_array($value, [...$values, $last], true), showsValue: true);
    }

    public static function flag(): self
    {
        return new self('true or false', fn (mixed $value) => in_array($value, [true, false, 0, 1, '0', '1'], true));
    }

    /** Creates a setting for a flag that another class passes on unchanged. */
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

    /** Creates a setting for a list of strings, which may have gaps, as after `array_filter()`. */
    public static function names(): self
    {
        return new self('an array', is_array(...), each: self::string(), rule: self::rejectNames(...));
    }

    public static function string(): self
    {
        return new self('a string', is_string(...));
    }

    /** Creates a setting for an array that another class checks. */
    public static function anyArray(): self
    {
        return new self('an array', is_array(...));
    }

    /**
     * Creates a setting for a map whose keys are names that the application chooses.
     *
     * @param ?Closure(array<array-key, mixed>, string): void $rule
     */
    public static function map(self $each, ?Closure $rule = null): self
    {
        return new self('an array', is_array(...), each: $each, rule: function (array $value, string $path) use ($rule): void {
            self::rejectList($value, $path);
            if ($rule !== null) {
                $rule($value, $path);
            }
        });
    }

    /**
     * @param array<string, self>                             $members
     * @param ?Closure(array<array-key, mixed>): bool         $isOpen whether the group may have keys of the application
     * @param ?Closure(array<array-key, mixed>, string): void $rule
     */
    public static function group(array $members, ?Closure $isOpen = null, ?Closure $rule = null): self
    {
        return new self('an array', is_array(...), $members, isOpen: $isOpen, rule: $rule);
    }

    /**
     * Returns a setting that accepts other values, too, such as `false` in place of an array.
     *
     * @param Closure(mixed): bool $accepts
     */
    public function or(string $expected, Closure $accepts): self
    {
        $either = fn (mixed $value) => ($this->accepts)($value) || $accepts($value);
        return new self($expected, $either, $this->members, $this->each, $this->isOpen, $this->rule);
    }

    /** @return array<string, self> the keys of a group */
    public function members(): array
    {
        return $this->members;
    }

    /** Returns the setting for each value of a map or a list. */
    public function each(): ?self
    {
        return $this->each;
    }

    /**
     * @param string $path the full key: `pillion.approvals.policy`
     *
     * @throws InvalidInputException naming the full key, what is expected and, for an unknown key, the nearest known one
     */
    public function check(string $path, #[\SensitiveParameter] mixed $value): void
    {
        if (!($this->accepts)($value)) {
            $found = $this->showsValue && is_string($value) ? "'$value'" : get_debug_type($value);
            throw new InvalidInputException("$path must be $this->expected, not $found");
        }
        if (!is_array($value)) {
            return;
        }
        if ($this->members !== []) {
            $this->checkMembers($path, $value);
        }
        foreach ($this->each === null ? [] : $value as $name => $item) {
            $this->each->check("$path.$name", $item);
        }
        if ($this->rule !== null) {
            ($this->rule)($value, $path);
        }
    }

    /** @param array<array-key, mixed> $group */
    private function checkMembers(string $path, #[\SensitiveParameter] array $group): void
    {
        $isOpen = $this->isOpen !== null && ($this->isOpen)($group);
        foreach ($group as $key => $value) {
            $key = (string) $key;
            $member = $this->members[$key] ?? null;
            if ($member !== null) {
                $member->check("$path.$key", $value);
                continue;
            }
            $nearest = NearestKey::find($key, array_keys($this->members));
            if (!$isOpen || $nearest !== null) {
                throw self::unknownKey("$path.$key", array_keys($this->members), $nearest ?? KnownSettings::findElsewhere($key));
            }
        }
    }

    /** @param list<string> $known */
    private static function unknownKey(string $path, array $known, ?string $nearest): InvalidInputException
    {
        $hint = $nearest === null ? '' : "; did you mean '$nearest'?";
        return new InvalidInputException("$path is unknown: expected one of " . implode(', ', $known) . $hint);
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
            throw new InvalidInputException("$path must have names as keys, not be a list");
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
