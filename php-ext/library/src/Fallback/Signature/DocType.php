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
    public const ANYTHING = ['string', 'number', 'boolean', 'object', 'array', 'null'];

    private int $depth = 0;

    private function __construct(private string $rest)
    {
    }

    /** @return ?array<string, mixed> null for an unsupported type */
    public static function schema(string $type): ?array
    {
        $parser = new self($type);
        $schema = $parser->union();
        $parser->skipSpace();
        return $parser->rest === '' ? $schema : null;
    }

    /**
     * Combines alternatives: schemas that differ only in `type` are merged into one, and so are lists of
     * values.
     *
     * @param non-empty-list<array<string, mixed>> $schemas
     *
     * @return array<string, mixed>
     */
    public static function oneOf(array $schemas): array
    {
        $distinct = [];
        foreach ($schemas as $schema) {
            if ($distinct === [] || end($distinct) !== $schema) {
                $distinct[] = $schema;
            }
        }
        if (count($distinct) === 1) {
            return $distinct[0];
        }
        $all = static fn (callable $fits): bool => count(array_filter($distinct, $fits)) === count($distinct);
        if ($all(static fn (array $schema): bool => count($schema) === 1 && is_string($schema['type'] ?? null))) {
            return ['type' => array_column($distinct, 'type')];
        }
        $type = $distinct[0]['type'] ?? null;
        if ($all(static fn (array $schema): bool => isset($schema['enum'], $schema['type']) && $schema['type'] === $type)) {
            return ['type' => $type, 'enum' => array_merge(...array_column($distinct, 'enum'))];
        }
        return ['anyOf' => $distinct];
    }

    private function skipSpace(): void
    {
        $this->rest = ltrim($this->rest);
    }

    private function take(string $token): bool
    {
        $this->skipSpace();
        if (!str_starts_with($this->rest, $token)) {
            return false;
        }
        $this->rest = substr($this->rest, strlen($token));
        return true;
    }

    private function word(): string
    {
        $this->skipSpace();
        $word = preg_match('/^[\p{L}\p{N}_\-\\\\]+/u', $this->rest, $found) === 1 ? $found[0] : '';
        $this->rest = substr($this->rest, strlen($word));
        return $word;
    }

    /** @return ?array<string, mixed> */
    private function union(): ?array
    {
        if (++$this->depth > self::MAX_DEPTH) {
            return null;
        }
        $schemas = [];
        do {
            $schema = $this->suffixed();
            if ($schema === null) {
                return null;
            }
            $schemas[] = $schema;
        } while ($this->take('|'));
        $this->depth--;
        return self::oneOf($schemas);
    }

    /** @return ?array<string, mixed> schema of `T`, `?T`, `T[]` */
    private function suffixed(): ?array
    {
        $isNullable = $this->take('?');
        if ($this->take('(')) {
            $schema = $this->union();
            $schema = $schema !== null && $this->take(')') ? $schema : null;
        } else {
            $schema = $this->single();
        }
        while ($schema !== null && $this->take('[]')) {
            $schema = ['type' => 'array', 'items' => $schema];
        }
        return $schema !== null && $isNullable ? self::oneOf([$schema, ['type' => 'null']]) : $schema;
    }

    /** @return ?array<string, mixed> */
    private function single(): ?array
    {
        $this->skipSpace();
        if (str_starts_with($this->rest, "'") || str_starts_with($this->rest, '"')) {
            $text = $this->textLiteral();
            return $text === null ? null : ['type' => 'string', 'enum' => [$text]];
        }
        $word = $this->word();
        return match (strtolower($word)) {
            'int', 'integer' => $this->take('<') ? $this->range() : ['type' => 'integer'],
            'positive-int' => ['type' => 'integer', 'minimum' => 1],
            'negative-int' => ['type' => 'integer', 'maximum' => -1],
            'non-negative-int' => ['type' => 'integer', 'minimum' => 0],
            'non-positive-int' => ['type' => 'integer', 'maximum' => 0],
            'float', 'double' => ['type' => 'number'],
            'string', 'class-string', 'numeric-string' => ['type' => 'string'],
            'non-empty-string', 'non-falsy-string' => ['type' => 'string', 'minLength' => 1],
            'bool', 'boolean', 'true', 'false' => ['type' => 'boolean'],
            'scalar' => ['type' => ['string', 'number', 'boolean']],
            'mixed' => ['type' => self::ANYTHING],
            'null' => ['type' => 'null'],
            'list' => $this->list([]),
            'non-empty-list' => $this->list(['minItems' => 1]),
            'array', 'iterable' => $this->array([], []),
            'non-empty-array' => $this->array(['minItems' => 1], ['minProperties' => 1]),
            'object' => $this->take('{') ? $this->shape() : null,
            default => $this->numberLiteral($word),
        };
    }

    private function textLiteral(): ?string
    {
        // A literal with an escape sequence is not supported, because its meaning depends on the
        // kind of quotes.
        if (preg_match('/^(["\'])([^\\\\]*?)\1/', $this->rest, $found) !== 1) {
            return null;
        }
        $this->rest = substr($this->rest, strlen($found[0]));
        return $found[2];
    }

    /** @return ?array<string, mixed> */
    private function numberLiteral(string $word): ?array
    {
        $isWhole = filter_var($word, FILTER_VALIDATE_INT) !== false && !str_starts_with($this->rest, '.');
        return $isWhole ? ['type' => 'integer', 'enum' => [(int) $word]] : null;
    }

    /** @return ?array<string, mixed> the rest of `int<1, max>` */
    private function range(): ?array
    {
        $schema = ['type' => 'integer'];
        foreach (['minimum' => ['min', ','], 'maximum' => ['max', '>']] as $keyword => [$open, $end]) {
            $bound = $this->word();
            if ($bound !== $open) {
                $number = filter_var($bound, FILTER_VALIDATE_INT);
                if ($number === false) {
                    return null;
                }
                $schema[$keyword] = $number;
            }
            if (!$this->take($end)) {
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
    private function list(array $bounds): ?array
    {
        if (!$this->take('<')) {
            return ['type' => 'array'] + $bounds;
        }
        $item = $this->union();
        return $item !== null && $this->take('>') ? ['type' => 'array', 'items' => $item] + $bounds : null;
    }

    /**
     * @param array<string, int> $listBounds bounds
     * @param array<string, int> $mapBounds  bounds
     *
     * @return ?array<string, mixed>
     */
    private function array(array $listBounds, array $mapBounds): ?array
    {
        if ($this->take('{')) {
            return $this->shape();
        }
        if (!$this->take('<')) {
            return ['type' => 'array'] + $listBounds;
        }
        $first = $this->union();
        if ($first === null) {
            return null;
        }
        if ($this->take('>')) {
            return ['type' => 'array', 'items' => $first] + $listBounds;
        }
        $value = $this->take(',') ? $this->union() : null;
        if ($value === null || !$this->take('>')) {
            return null;
        }
        return ($first['type'] ?? null) === 'string'
            ? ['type' => 'object', 'additionalProperties' => $value] + $mapBounds
            : ['type' => 'array', 'items' => $value] + $listBounds;
    }

    /** @return ?array<string, mixed> the rest of `array{a: int, b?: string, ...}` */
    private function shape(): ?array
    {
        $properties = $required = [];
        while (!$this->take('}')) {
            if ($this->take('...')) {
                if (!$this->take('}')) {
                    return null;
                }
                break;
            }
            $this->skipSpace();
            $isQuoted = str_starts_with($this->rest, "'") || str_starts_with($this->rest, '"');
            $key = $isQuoted ? $this->textLiteral() : $this->word();
            if ($key === null || $key === '') {
                return null;
            }
            if (!$this->take('?')) {
                $required[] = $key;
            }
            $schema = $this->take(':') ? $this->union() : null;
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
        // A shape without keys allows anything.
        return $properties === [] ? null : ['type' => 'object', 'properties' => $properties, 'required' => $required];
    }
}
