<?php

declare(strict_types=1);

namespace Pillion\Fallback\Provider\Gemini;

/**
 * Converts JSON Schema to the `Schema` of Gemini's function declarations, a subset of OpenAPI 3.0. The API
 * rejects a whole request for one unknown keyword. The rules are the same as the engine's; see
 * docs/reference/provider-formats.md.
 *
 * @internal
 */
final class SchemaConversion
{
    /** Maximum nesting of nodes; deeper nodes are converted without details. */
    private const MAX_LEVELS = 32;

    private function __construct(private readonly ReferenceResolver $resolver)
    {
    }

    /**
     * Converts the `parameters` of a function declaration; always returns an object schema with `properties`.
     */
    public static function parameters(\stdClass $schema): \stdClass
    {
        $converted = (new self(new ReferenceResolver($schema)))->convert($schema, 0);
        if (($converted->type ?? null) !== 'object') {
            $converted = self::minimalNode(SchemaType::Object);
        }
        $converted->properties ??= new \stdClass();
        return $converted;
    }

    private function convert(mixed $schema, int $level): \stdClass
    {
        if ($level > self::MAX_LEVELS || $this->resolver->isExhausted()) {
            return self::minimalNode(SchemaType::ofCutNode($schema));
        }
        $opened = $this->resolver->countOpen();
        $node = new ResolvedSchema();
        $this->resolver->merge($schema, $node);
        $converted = $this->convertResolved($node, $level);
        $this->resolver->closeTo($opened);
        return $converted;
    }

    private function convertResolved(ResolvedSchema $node, int $level): \stdClass
    {
        $nullable = $node->get('nullable') === true;
        while (($branches = $node->takeUnion()) !== null) {
            $others = array_values(array_filter($branches, static fn (mixed $branch): bool => !self::isNull($branch)));
            $nullable = $nullable || count($others) < count($branches);
            if ($node->hasOwnType()) {
                // Gemini does not allow a union next to a type, and the type is more specific.
                continue;
            }
            if (count($others) > 1) {
                return $this->convertUnion($others, $node, $nullable, $level);
            }
            if ($others !== []) {
                $this->resolver->merge($others[0], $node);
            }
        }
        [$kinds, $hasNull] = SchemaType::declaredBy($node);
        $nullable = $nullable || $hasNull;
        if (count($kinds) < 2) {
            return $this->convertAs($node, $kinds[0] ?? SchemaType::impliedBy($node), $nullable, $level);
        }
        return (object) ['anyOf' => array_map(fn (SchemaType $kind) => $this->convertAs($node, $kind, $nullable, $level), $kinds)];
    }

    /**
     * Converts a union. A Gemini union cannot have a description or `nullable`, so each branch gets them.
     *
     * @param list<mixed> $branches
     */
    private function convertUnion(array $branches, ResolvedSchema $node, bool $nullable, int $level): \stdClass
    {
        $description = $node->get('description');
        $converted = [];
        foreach ($branches as $branch) {
            $branch = $this->convert($branch, $level + 1);
            if (!property_exists($branch, 'anyOf')) {
                if ($nullable) {
                    $branch->nullable = true;
                }
                if (is_string($description) && $this->resolver->spend($description)) {
                    $branch->description ??= $description;
                }
            }
            $converted[] = $branch;
        }
        return (object) ['anyOf' => $converted];
    }

    /** Converts a node as a node of the type `$kind`. */
    private function convertAs(ResolvedSchema $node, SchemaType $kind, bool $nullable, int $level): \stdClass
    {
        $out = self::minimalNode($kind);
        $keywords = ['title' => is_string(...), 'description' => is_string(...)] + $kind->keywords();
        foreach ($keywords as $key => $fits) {
            if ($node->has($key) && $fits($node->get($key))) {
                $out->$key = $node->get($key);
            }
        }
        if ($nullable || ($kind === SchemaType::String && $node->allowsNull())) {
            $out->nullable = true;
        }
        if ($kind === SchemaType::String && $node->stringValues() !== null) {
            $out->enum = $node->stringValues();
        } elseif ($kind === SchemaType::Integer || $kind === SchemaType::Number) {
            self::convertBounds($node, $kind, $out);
        } elseif ($kind === SchemaType::Array && $node->items() !== null) {
            $out->items = $this->convert($node->items(), $level + 1);
        } elseif ($kind === SchemaType::Object) {
            $this->convertMembers($node, $level, $out);
        }
        return $out;
    }

    private function convertMembers(ResolvedSchema $node, int $level, \stdClass $out): void
    {
        if ($node->properties === []) {
            return;
        }
        $properties = array_map(fn (mixed $property) => $this->convert($property, $level + 1), $node->properties);
        foreach (['required' => $node->required(), 'propertyOrdering' => $node->ordering()] as $key => $names) {
            $known = array_values(array_filter($names, static fn (string $name): bool => array_key_exists($name, $properties)));
            if ($known !== []) {
                $out->$key = $known;
            }
        }
        $out->properties = (object) $properties;
    }

    /**
     * Converts `exclusiveMinimum` and `exclusiveMaximum` to inclusive bounds, unless the node already has
     * inclusive bounds. Ignores the boolean form of draft 4, which only modifies an inclusive bound.
     */
    private static function convertBounds(ResolvedSchema $node, SchemaType $kind, \stdClass $out): void
    {
        foreach (['exclusiveMinimum' => ['minimum', 1], 'exclusiveMaximum' => ['maximum', -1]] as $key => [$inclusive, $step]) {
            $bound = $node->get($key);
            if (!is_int($bound) && !is_float($bound)) {
                continue;
            }
            $isSteppable = $kind === SchemaType::Integer && is_int($bound) && is_int($bound + $step);
            $out->$inclusive ??= $isSteppable ? $bound + $step : $bound;
        }
    }

    /** Returns the minimal node of a type. */
    private static function minimalNode(SchemaType $kind): \stdClass
    {
        $node = (object) ['type' => $kind->value];
        if ($kind === SchemaType::Array) {
            $node->items = (object) ['type' => 'string'];
        }
        return $node;
    }

    private static function isNull(mixed $branch): bool
    {
        return $branch instanceof \stdClass
            && (($branch->type ?? null) === 'null'
                || (property_exists($branch, 'const') && $branch->const === null)
                || ($branch->enum ?? null) === [null]);
    }
}
