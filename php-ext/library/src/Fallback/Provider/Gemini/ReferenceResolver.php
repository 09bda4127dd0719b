<?php

declare(strict_types=1);

namespace Pillion\Fallback\Provider\Gemini;

use Pillion\Fallback\Schema\Pointer;

/**
 * Resolves `$ref` and `allOf`, and tracks the open references to detect recursion.
 *
 * @internal
 */
final class ReferenceResolver
{
    /**
     * The remaining work, in units of {@see weight()}; the initial value corresponds to about one megabyte.
     * With references, a small schema can expand without limit.
     */
    private int $budget = 100_000;

    /**
     * The IDs of the reference targets between the root and the current node. Meeting one again means that
     * the schema is recursive.
     *
     * @var array<int, true>
     */
    private array $open;

    public function __construct(private readonly \stdClass $root)
    {
        $this->open = [spl_object_id($root) => true];
    }

    public function isExhausted(): bool
    {
        return $this->budget === 0;
    }

    /** Subtracts the weight of a value from the budget. Returns false if the budget is exceeded. */
    public function spend(mixed $value): bool
    {
        $cost = self::weight($value);
        $isAffordable = $cost <= $this->budget;
        $this->budget = max(0, $this->budget - $cost);
        return $isAffordable;
    }

    public function countOpen(): int
    {
        return count($this->open);
    }

    public function closeTo(int $count): void
    {
        $this->open = array_slice($this->open, 0, $count, true);
    }

    /** Merges a schema into a node. The targets of its references stay open until {@see closeTo()}. */
    public function merge(mixed $schema, ResolvedSchema $node): void
    {
        // Iterative instead of recursive: a chain of references may be as long as the schema.
        $pending = [$schema];
        while ($pending !== []) {
            $schema = array_pop($pending);
            if (!$this->spend($schema)) {
                return;
            }
            if (!$schema instanceof \stdClass) {
                continue;
            }
            foreach (get_object_vars($schema) as $value) {
                if (!$this->spend($value)) {
                    return;
                }
            }
            $node->add($schema);
            if (is_array($schema->allOf ?? null)) {
                array_push($pending, ...array_reverse($schema->allOf));
            }
            if (!property_exists($schema, '$ref')) {
                continue;
            }
            $target = Pointer::find($this->root, $schema->{'$ref'});
            if (!$target instanceof \stdClass) {
                $node->addDefault('type', 'object');
            } elseif (isset($this->open[spl_object_id($target)])) {
                $node->addOutline($target);
            } else {
                $this->open[spl_object_id($target)] = true;
                $pending[] = $target;
            }
        }
    }

    /** Returns the approximate length of a value when written, without nested values. */
    private static function weight(mixed $value): int
    {
        $text = static fn (int|string $text): int => 1 + intdiv(strlen((string) $text), 16);
        return match (true) {
            is_string($value) => $text($value),
            is_array($value) => max(1, array_sum(array_map(
                static fn (mixed $item): int => is_string($item) ? $text($item) : 1,
                $value,
            ))),
            $value instanceof \stdClass => max(1, array_sum(array_map($text, array_keys(get_object_vars($value))))),
            default => 1,
        };
    }
}
