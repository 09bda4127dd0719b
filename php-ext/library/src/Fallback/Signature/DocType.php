<?php

declare(strict_types=1);

namespace Pillion\Fallback\Signature;

/**
 * Converts types of doc comments, in PHPStan's syntax, to JSON Schema. Only simple types are supported.
 *
 * @internal
 */
final class DocType
{
    /** Maximum nesting of types. */
    private const MAX_DEPTH = 16;

    /** The JSON types that `mixed` allows. */
    public const MIXED_TYPES = ['string', 'number', 'boolean', 'object', 'array', 'null'];

    private int $depth = 0;

    private function __construct(private string $unparsedType)
    {
    }

    /** @return ?array<string, mixed> null for an unsupported type */
    public static function parse(string $type): ?array
    {
        $parser = new self($type);
        $schema = $parser->parseUnion();
        $parser->skipSpace();
        return $parser->unparsedType === '' ? $schema : null;
    }

    /**
     * Returns a schema that allows every value that one of the given schemas allows. Schemas that
     * differ only in `type` are merged into one, and so are lists of values.
     *
     * @param non-empty-list<array<string, mixed>> $schemas
     *
     * @return array<string, mixed>
     */
    public static function combine(array $schemas): array
    {
        $distinctSchemas = [];
        foreach ($schemas as $schema) {
            if ($distinctSchemas === [] || end($distinctSchemas) !== $schema) {
                $distinctSchemas[] = $schema;
            }
        }
        if (count($distinctSchemas) === 1) {
            return $distinctSchemas[0];
        }
        $matchesAll = static fn (callable $accepts): bool => count(array_filter($distinctSchemas, $accepts)) === count($distinctSchemas);
        if ($matchesAll(static fn (array $schema): bool => count($schema) === 1 && is_string($schema['type'] ?? null))) {
            return ['type' => array_column($distinctSchemas, 'type')];
        }
        $type = $distinctSchemas[0]['type'] ?? null;
        if ($matchesAll(static fn (array $schema): bool => isset($schema['enum'], $schema['type']) && $schema['type'] === $type)) {
            return ['type' => $type, 'enum' => array_merge(...array_column($distinctSchemas, 'enum'))];
        }
        return ['anyOf' => $distinctSchemas];
    }

    private function skipSpace(): void
    {
        $this->unparsedType = ltrim($this->unparsedType);
    }

    /** Skips a token. Returns whether the unparsed text began with the token. */
    private function take(string $token): bool
    {
        $this->skipSpace();
        if (!str_starts_with($this->unparsedType, $token)) {
            return false;
        }
        $this->unparsedType = substr($this->unparsedType, strlen($token));
        return true;
    }

    private function takeWord(): string
    {
        $this->skipSpace();
        $word = preg_match('/^[\p{L}\p{N}_\-\\\\]+/u', $this->unparsedType, $matches) === 1 ? $matches[0] : '';
        $this->unparsedType = substr($this->unparsedType, strlen($word));
        return $word;
    }

    /** @return ?array<string, mixed> */
    private function parseUnion(): ?array
    {
        if (++$this->depth > self::MAX_DEPTH) {
            return null;
        }
        $schemas = [];
        do {
            $schema = $this->parseSuffixedType();
            if ($schema === null) {
                return null;
            }
            $schemas[] = $schema;
        } while ($this->take('|'));
        $this->depth--;
        return self::combine($schemas);
    }

    /** @return ?array<string, mixed> the schema of a type `T`, `?T` or `T[]`; null if unsupported */
    private function parseSuffixedType(): ?array
    {
        $isNullable = $this->take('?');
        if ($this->take('(')) {
            $innerSchema = $this->parseUnion();
            $schema = $innerSchema !== null && $this->take(')') ? $innerSchema : null;
        } else {
            $schema = $this->parseSingleType();
        }
        while ($schema !== null && $this->take('[]')) {
            $schema = ['type' => 'array', 'items' => $schema];
        }
        return $schema !== null && $isNullable ? self::combine([$schema, ['type' => 'null']]) : $schema;
    }

    /** @return ?array<string, mixed> */
    private function parseSingleType(): ?array
    {
        $this->skipSpace();
        if (str_starts_with($this->unparsedType, "'") || str_starts_with($this->unparsedType, '"')) {
            $text = $this->parseTextLiteral();
            return $text === null ? null : ['type' => 'string', 'enum' => [$text]];
        }
        $word = $this->takeWord();
        return match (strtolower($word)) {
            'int', 'integer' => $this->take('<') ? $this->parseRange() : ['type' => 'integer'],
            'positive-int' => ['type' => 'integer', 'minimum' => 1],
            'negative-int' => ['type' => 'integer', 'maximum' => -1],
            'non-negative-int' => ['type' => 'integer', 'minimum' => 0],
            'non-positive-int' => ['type' => 'integer', 'maximum' => 0],
            'float', 'double' => ['type' => 'number'],
            'string', 'class-string', 'numeric-string' => ['type' => 'string'],
            'non-empty-string', 'non-falsy-string' => ['type' => 'string', 'minLength' => 1],
            'bool', 'boolean', 'true', 'false' => ['type' => 'boolean'],
            'scalar' => ['type' => ['string', 'number', 'boolean']],
            'mixed' => ['type' => self::MIXED_TYPES],
            'null' => ['type' => 'null'],
            'list' => $this->parseList([]),
            'non-empty-list' => $this->parseList(['minItems' => 1]),
            'array', 'iterable' => $this->parseArray([], []),
            'non-empty-array' => $this->parseArray(['minItems' => 1], ['minProperties' => 1]),
            'object' => $this->take('{') ? $this->parseShape() : null,
            default => $this->parseNumberLiteral($word),
        };
    }

    private function parseTextLiteral(): ?string
    {
        // A literal with an escape sequence is not supported, because its meaning depends on the
        // kind of quotes.
        if (preg_match('/^(["\'])([^\\\\]*?)\1/', $this->unparsedType, $matches) !== 1) {
            return null;
        }
        $this->unparsedType = substr($this->unparsedType, strlen($matches[0]));
        return $matches[2];
    }

    /** @return ?array<string, mixed> */
    private function parseNumberLiteral(string $word): ?array
    {
        $isInteger = filter_var($word, FILTER_VALIDATE_INT) !== false && !str_starts_with($this->unparsedType, '.');
        return $isInteger ? ['type' => 'integer', 'enum' => [(int) $word]] : null;
    }

    /** @return ?array<string, mixed> the schema of a type such as `int<1, max>`, from the text after `int<` */
    private function parseRange(): ?array
    {
        $schema = ['type' => 'integer'];
        foreach (['minimum' => ['min', ','], 'maximum' => ['max', '>']] as $keyword => [$unboundedWord, $separator]) {
            $bound = $this->takeWord();
            if ($bound !== $unboundedWord) {
                $number = filter_var($bound, FILTER_VALIDATE_INT);
                if ($number === false) {
                    return null;
                }
                $schema[$keyword] = $number;
            }
            if (!$this->take($separator)) {
                return null;
            }
        }
        return $schema;
    }

    /**
     * @param array<string, int> $bounds
     *
     * @return ?array<string, mixed>
     */
    private function parseList(array $bounds): ?array
    {
        if (!$this->take('<')) {
            return ['type' => 'array'] + $bounds;
        }
        $itemSchema = $this->parseUnion();
        return $itemSchema !== null && $this->take('>') ? ['type' => 'array', 'items' => $itemSchema] + $bounds : null;
    }

    /**
     * @param array<string, int> $listBounds bounds of the schema if the type is a list
     * @param array<string, int> $mapBounds  bounds of the schema if the type is a map
     *
     * @return ?array<string, mixed>
     */
    private function parseArray(array $listBounds, array $mapBounds): ?array
    {
        if ($this->take('{')) {
            return $this->parseShape();
        }
        if (!$this->take('<')) {
            return ['type' => 'array'] + $listBounds;
        }
        $firstSchema = $this->parseUnion();
        if ($firstSchema === null) {
            return null;
        }
        if ($this->take('>')) {
            return ['type' => 'array', 'items' => $firstSchema] + $listBounds;
        }
        $valueSchema = $this->take(',') ? $this->parseUnion() : null;
        if ($valueSchema === null || !$this->take('>')) {
            return null;
        }
        return ($firstSchema['type'] ?? null) === 'string'
            ? ['type' => 'object', 'additionalProperties' => $valueSchema] + $mapBounds
            : ['type' => 'array', 'items' => $valueSchema] + $listBounds;
    }

    /** @return ?array<string, mixed> the schema of a shape such as `array{a: int, b?: int}`, from the text after `{` */
    private function parseShape(): ?array
    {
        $properties = $requiredKeys = [];
        while (!$this->take('}')) {
            if ($this->take('...')) {
                if (!$this->take('}')) {
                    return null;
                }
                break;
            }
            $this->skipSpace();
            $isQuoted = str_starts_with($this->unparsedType, "'") || str_starts_with($this->unparsedType, '"');
            $key = $isQuoted ? $this->parseTextLiteral() : $this->takeWord();
            if ($key === null || $key === '') {
                return null;
            }
            if (!$this->take('?')) {
                $requiredKeys[] = $key;
            }
            $schema = $this->take(':') ? $this->parseUnion() : null;
            if ($schema === null) {
                return null;
            }
            $properties[$key] = $schema;
            if (!$this->take(',')) {
                if (!$this->take('}')) {
                    return null;
                }
                break;
            }
        }
        // A shape without keys becomes a schema that allows any value.
        return $properties === [] ? null : ['type' => 'object', 'properties' => $properties, 'required' => $requiredKeys];
    }
}
