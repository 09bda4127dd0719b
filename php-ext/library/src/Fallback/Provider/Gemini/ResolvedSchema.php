<?php

declare(strict_types=1);

namespace Pillion\Fallback\Provider\Gemini;

/**
 * A node merged with its references and its `allOf`. If several schemas set the same keyword, the value
 * closest to the node applies; properties and required names are combined.
 *
 * @internal
 */
final class ResolvedSchema
{
    /** @var array<array-key, mixed> */
    private array $keywords = [];
    /** @var array<array-key, mixed> */
    public array $properties = [];
    /** @var array<array-key, true> names as keys */
    private array $required = [];

    public function add(\stdClass $schema): void
    {
        foreach (get_object_vars($schema) as $key => $value) {
            if ($key === '$ref' || $key === 'allOf') {
                continue;
            }
            if ($key === 'properties' && $value instanceof \stdClass) {
                $this->properties += get_object_vars($value);
            } elseif ($key === 'required' && is_array($value)) {
                $this->required += array_fill_keys(array_filter($value, is_string(...)), true);
            } else {
                $this->addDefault($key, $value);
            }
        }
    }

    /** Adds only the type, title and description of a target, not its members. */
    public function addOutline(\stdClass $target): void
    {
        foreach (['type', 'title', 'description'] as $key) {
            if (isset($target->$key)) {
                $this->addDefault($key, $target->$key);
            }
        }
        $this->addDefault('type', 'object');
    }

    public function addDefault(int|string $key, mixed $value): void
    {
        if (!array_key_exists($key, $this->keywords)) {
            $this->keywords[$key] = $value;
        }
    }

    public function has(string $key): bool
    {
        return array_key_exists($key, $this->keywords);
    }

    public function get(string $key): mixed
    {
        return $this->keywords[$key] ?? null;
    }

    /** @return list<string> */
    public function required(): array
    {
        return array_map(strval(...), array_keys($this->required));
    }

    /** @return list<string> */
    public function ordering(): array
    {
        $names = $this->get('propertyOrdering');
        return is_array($names) ? array_values(array_filter($names, is_string(...))) : [];
    }

    /**
     * Removes and returns the branches of `anyOf` or `oneOf`.
     *
     * @return ?list<mixed>
     */
    public function takeUnion(): ?array
    {
        foreach (['anyOf', 'oneOf'] as $key) {
            $branches = $this->get($key);
            unset($this->keywords[$key]);
            if (is_array($branches)) {
                return $branches;
            }
        }
        return null;
    }

    public function hasOwnType(): bool
    {
        return $this->has('type') || $this->properties !== [];
    }

    /** Returns the schema of the items; for a tuple, the schema of the first item. */
    public function items(): mixed
    {
        $items = $this->get('items');
        if ($items instanceof \stdClass) {
            return $items;
        }
        $tuple = is_array($items) && $items !== [] ? $items : $this->get('prefixItems');
        return is_array($tuple) ? $tuple[0] ?? null : null;
    }

    /** @return ?list<mixed> the values of `enum` or `const` */
    public function values(): ?array
    {
        $values = $this->get('enum');
        if (is_array($values)) {
            return $values;
        }
        return $this->has('const') ? [$this->get('const')] : null;
    }

    public function allowsNull(): bool
    {
        return in_array(null, $this->values() ?? [], true);
    }

    /**
     * Returns the values that are allowed in a Gemini `enum`: strings, without `null` and the empty string.
     *
     * @return ?non-empty-list<string>
     */
    public function stringValues(): ?array
    {
        $strings = [];
        foreach ($this->values() ?? [] as $value) {
            if ($value !== null && !is_string($value)) {
                return null;
            }
            if ($value !== null && $value !== '') {
                $strings[] = $value;
            }
        }
        return $strings === [] ? null : $strings;
    }
}
