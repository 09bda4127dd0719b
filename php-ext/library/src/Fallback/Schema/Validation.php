<?php

declare(strict_types=1);

namespace Pillion\Fallback\Schema;

use Pillion\Fallback\Json;

/**
 * One validation of a value against a schema.
 *
 * @internal
 */
final class Validation
{
    private const MAX_SECONDS = 2.0;
    private const MAX_LEVELS = 256;
    private const STEPS_PER_CLOCK_CHECK = 64;

    private int $steps = 0;
    private int $level = 0;
    private readonly float $deadline;

    public function __construct(private readonly \stdClass $root)
    {
        $this->deadline = microtime(true) + self::MAX_SECONDS;
    }

    /**
     * Returns all violations, in the engine's order of keywords.
     *
     * @return \Generator<int, Violation>
     *
     * @throws ValidationAborted
     */
    public function violations(mixed $schema, mixed $value, string $path): \Generator
    {
        $this->step();
        if (!$schema instanceof \stdClass) {
            if ($schema === false) {
                yield Violation::other($path, 'False schema does not allow the value');
            }
            return;
        }
        if (++$this->level > self::MAX_LEVELS) {
            throw new ValidationAborted('its schema is nested too deeply');
        }
        yield from $this->checkValue($schema, $value, $path);
        if ($value instanceof \stdClass) {
            yield from $this->checkMembers($schema, $value, $path);
        } elseif (is_array($value)) {
            yield from $this->checkElements($schema, $value, $path);
        }
        yield from $this->checkCombinations($schema, $value, $path);
        $this->level--;
    }

    /** Checks the keywords that apply to the value itself: type, values, size. */
    private function checkValue(\stdClass $schema, mixed $value, string $path): \Generator
    {
        if (isset($schema->type) && !TypeKeyword::fits($schema->type, $value)) {
            yield Violation::type($path, TypeKeyword::text($schema->type));
        }
        if (property_exists($schema, 'const') && !JsonEquality::equals($schema->const, $value)) {
            yield Violation::notAllowed($path, [$schema->const]);
        }
        if (isset($schema->enum) && !JsonEquality::equalsAny($schema->enum, $value)) {
            yield Violation::notAllowed($path, $schema->enum);
        }
        $reasons = match (true) {
            is_int($value), is_float($value) => SizeLimits::ofNumber($schema, $value),
            is_string($value) => SizeLimits::ofText($schema, $value),
            is_array($value) => SizeLimits::ofList($schema, $value),
            $value instanceof \stdClass => SizeLimits::ofMap($schema, $value),
            default => [],
        };
        foreach ($reasons as $reason) {
            yield Violation::other($path, $reason);
        }
    }

    private function checkMembers(\stdClass $schema, \stdClass $value, string $path): \Generator
    {
        foreach ($schema->required ?? [] as $name) {
            if (!property_exists($value, $name)) {
                yield Violation::missing($path, $name);
            }
        }
        foreach ($schema->dependentRequired ?? [] as $name => $others) {
            foreach (property_exists($value, (string) $name) ? $others : [] as $other) {
                if (!property_exists($value, $other)) {
                    yield Violation::missing($path, $other);
                }
            }
        }
        $known = [];
        foreach ($schema->properties ?? [] as $name => $property) {
            $known[$name] = true;
            if (property_exists($value, (string) $name)) {
                yield from $this->violations($property, $value->$name, Violation::join($path, $name));
            }
        }
        foreach ($schema->patternProperties ?? [] as $pattern => $property) {
            foreach (get_object_vars($value) as $name => $member) {
                if (Pattern::matches((string) $pattern, (string) $name)) {
                    $known[$name] = true;
                    yield from $this->violations($property, $member, Violation::join($path, $name));
                }
            }
        }
        yield from $this->checkOtherMembers($schema, array_diff_key(get_object_vars($value), $known), $path);
        foreach (property_exists($schema, 'propertyNames') ? array_keys(get_object_vars($value)) : [] as $name) {
            foreach ($this->violations($schema->propertyNames, (string) $name, $path) as $violation) {
                $reason = $violation->reason ?? 'the value is not an allowed name';
                yield Violation::other($path, str_replace('the value', Json::encode((string) $name), $reason));
            }
        }
    }

    /** @param array<array-key, mixed> $members members not covered by other keywords */
    private function checkOtherMembers(\stdClass $schema, array $members, string $path): \Generator
    {
        $additional = $schema->additionalProperties ?? true;
        if ($additional === false && $members !== [] && !isset($schema->properties) && !isset($schema->patternProperties)) {
            yield Violation::other($path, 'False schema does not allow the value');
        } elseif ($additional === false && $members !== []) {
            $names = implode(', ', array_map(static fn (int|string $name): string => "'$name'", array_keys($members)));
            $verb = count($members) === 1 ? 'was' : 'were';
            yield Violation::other($path, "Additional properties are not allowed ($names $verb unexpected)");
        } elseif ($additional instanceof \stdClass) {
            foreach ($members as $name => $member) {
                yield from $this->violations($additional, $member, Violation::join($path, $name));
            }
        }
    }

    /** @param list<mixed> $value */
    private function checkElements(\stdClass $schema, array $value, string $path): \Generator
    {
        $prefix = is_array($schema->prefixItems ?? null) ? $schema->prefixItems : [];
        foreach (array_slice($value, count($prefix), null, true) as $index => $element) {
            yield from $this->violations($schema->items ?? true, $element, "{$path}[$index]");
        }
        foreach (array_slice($value, 0, count($prefix)) as $index => $element) {
            yield from $this->violations($prefix[$index], $element, "{$path}[$index]");
        }
        if (property_exists($schema, 'contains')) {
            foreach ($value as $element) {
                if ($this->isValid($schema->contains, $element)) {
                    return;
                }
            }
            yield Violation::other($path, 'None of the value are valid under the given schema');
        }
    }

    private function checkCombinations(\stdClass $schema, mixed $value, string $path): \Generator
    {
        foreach ($schema->allOf ?? [] as $part) {
            yield from $this->violations($part, $value, $path);
        }
        if (isset($schema->anyOf) && $this->countValid($schema->anyOf, $value, 1) === 0) {
            yield Violation::other($path, "the value is not valid under any of the schemas listed in the 'anyOf' keyword");
        }
        if (isset($schema->oneOf)) {
            $valid = $this->countValid($schema->oneOf, $value, 2);
            if ($valid !== 1) {
                $how = $valid === 0 ? 'not valid under any' : 'valid under more than one';
                yield Violation::other($path, "the value is $how of the schemas listed in the 'oneOf' keyword");
            }
        }
        if (property_exists($schema, 'not') && $this->isValid($schema->not, $value)) {
            yield Violation::other($path, Json::encode($schema->not) . ' is not allowed for the value');
        }
        if (property_exists($schema, 'if')) {
            $branch = $this->isValid($schema->if, $value) ? 'then' : 'else';
            yield from $this->violations($schema->$branch ?? true, $value, $path);
        }
        if (isset($schema->{'$ref'})) {
            yield from $this->violations(Pointer::find($this->root, $schema->{'$ref'}), $value, $path);
        }
    }

    private function isValid(mixed $schema, mixed $value): bool
    {
        $level = $this->level;
        foreach ($this->violations($schema, $value, '') as $violation) {
            // The generator is abandoned after the first violation, so the level must be reset.
            $this->level = $level;
            return false;
        }
        return true;
    }

    /** @param list<mixed> $schemas */
    private function countValid(array $schemas, mixed $value, int $stopAt): int
    {
        $valid = 0;
        foreach ($schemas as $schema) {
            $valid += $this->isValid($schema, $value) ? 1 : 0;
            if ($valid === $stopAt) {
                break;
            }
        }
        return $valid;
    }

    private function step(): void
    {
        if (++$this->steps % self::STEPS_PER_CLOCK_CHECK === 0 && microtime(true) > $this->deadline) {
            throw new ValidationAborted('checking it against its schema takes too long');
        }
    }
}
