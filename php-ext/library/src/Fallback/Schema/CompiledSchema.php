<?php

declare(strict_types=1);

namespace Pillion\Fallback\Schema;

/**
 * The compiled schema of a tool's arguments. Error messages and their order are the same as in the engine.
 * Not supported: `format`, `unevaluated...`, `dependentSchemas`, `$dynamicRef` and identifiers.
 *
 * @internal
 */
final class CompiledSchema
{
    /** Maximum number of violations that are examined to find the first one. */
    private const MAX_VIOLATIONS = 1000;

    /** @param list<string> $properties names in order */
    private function __construct(private readonly \stdClass $schema, private readonly array $properties)
    {
    }

    /** @throws SchemaError */
    public static function compile(\stdClass $schema): self
    {
        (new SchemaChecker($schema))->check();
        return new self($schema, array_map(strval(...), array_keys(get_object_vars($schema->properties))));
    }

    /**
     * Validates the arguments. If they are invalid only as written, applies the intended reading (see
     * {@see Coercion}). Then fills in the defaults of missing arguments.
     *
     * @return ?string the first violation, in the order of the parameters
     */
    public function validate(\stdClass &$arguments, bool $dropsNulls = false): ?string
    {
        try {
            $first = $this->firstViolation($arguments);
            if ($first !== null) {
                $coerced = Coercion::coerce(SchemaLocation::of($this->schema, $this->schema), $arguments, $dropsNulls);
                $first = $this->firstViolation($coerced);
                $arguments = $first === null ? $coerced : $arguments;
            }
        } catch (ValidationAborted $e) {
            $first = Violation::other('', $e->getMessage());
        }
        if ($first !== null) {
            return $first->message;
        }
        foreach ($this->properties as $name) {
            $property = $this->schema->properties->$name;
            if (isset($property->default) && !property_exists($arguments, $name)) {
                $arguments->$name = $property->default;
            }
        }
        return null;
    }

    private function firstViolation(\stdClass $arguments): ?Violation
    {
        $first = null;
        $lowestRank = PHP_INT_MAX;
        $count = 0;
        foreach ((new Validation($this->schema))->violations($this->schema, $arguments, '') as $violation) {
            $index = array_search($violation->parameter(), $this->properties, true);
            $rank = $index === false ? count($this->properties) : $index;
            if ($rank < $lowestRank) {
                [$first, $lowestRank] = [$violation, $rank];
            }
            if ($rank === 0 || ++$count >= self::MAX_VIOLATIONS) {
                break;
            }
        }
        return $first;
    }
}
