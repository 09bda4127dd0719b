<?php

declare(strict_types=1);

namespace Pillion\Fallback\Signature;

/**
 * The schema of a declared PHP type.
 *
 * @internal
 */
final class PhpType
{
    /** Marks an integer argument in a binding. */
    public const INTEGER = 'int';

    private const KINDS = [
        'int' => 'integer', 'float' => 'number', 'string' => 'string', 'bool' => 'boolean', 'false' => 'boolean',
        'true' => 'boolean', 'array' => 'array', 'iterable' => 'array',
    ];

    /** @var list<array<string, mixed>> */
    private array $schemas = [];
    /** @var ?class-string<\BackedEnum> */
    private ?string $enumeration = null;
    private bool $isNullable = false;
    /** Whether any value is allowed. */
    private bool $acceptsAnything = false;

    /** @throws \DomainException with the type that is not supported for a tool's parameter */
    public function __construct(?\ReflectionType $declared)
    {
        if ($declared === null) {
            $this->acceptsAnything = true;
        } elseif ($declared instanceof \ReflectionUnionType) {
            foreach ($declared->getTypes() as $member) {
                $member instanceof \ReflectionNamedType ? $this->add($member) : throw new \DomainException((string) $declared);
            }
        } elseif ($declared instanceof \ReflectionNamedType) {
            $this->add($declared);
            $this->isNullable = $this->isNullable || ($declared->allowsNull() && !$this->acceptsAnything);
        } else {
            throw new \DomainException((string) $declared);
        }
    }

    private function add(\ReflectionNamedType $named): void
    {
        $name = $named->getName();
        if (!$named->isBuiltin()) {
            // Two enums in one type are not supported, because the enum of a value would be
            // ambiguous.
            if ($this->enumeration !== null || !enum_exists($name) || !is_subclass_of($name, \BackedEnum::class)) {
                throw new \DomainException($name);
            }
            $this->enumeration = $name;
            $values = array_map(static fn (\BackedEnum $case): int|string => $case->value, $name::cases());
            $type = (string) (new \ReflectionEnum($name))->getBackingType();
            $this->schemas[] = ['type' => self::KINDS[$type], 'enum' => $values];
        } elseif ($name === 'null') {
            $this->isNullable = true;
        } elseif ($name === 'mixed') {
            $this->acceptsAnything = true;
        } else {
            $this->schemas[] = ['type' => self::KINDS[$name] ?? throw new \DomainException($name)];
        }
    }

    /** @return class-string<\BackedEnum>|'int'|null the target type of an argument */
    public function kind(): ?string
    {
        $types = $this->acceptsAnything ? [] : array_column($this->schemas, 'type');
        $isWhole = in_array('integer', $types, true) && !in_array('number', $types, true);
        return $this->enumeration ?? ($isWhole ? self::INTEGER : null);
    }

    /**
     * Returns the schema; a doc comment may make the type more precise.
     *
     * @param ?array<string, mixed> $documented
     *
     * @return array<string, mixed>
     */
    public function schema(?array $documented): array
    {
        if ($this->acceptsAnything) {
            return $documented ?? ['type' => DocType::ANYTHING];
        }
        $fits = $documented !== null && $this->enumeration === null;
        foreach ($fits ? self::typesOf($documented) : [] as $kind) {
            $fits = $fits && $this->accepts($kind);
        }
        $schemas = $fits ? [$documented] : $this->schemas;
        $includesNull = in_array('null', array_merge(...array_map(self::typesOf(...), $schemas)), true);
        if (!$this->isNullable || $includesNull) {
            return DocType::oneOf($schemas);
        }
        if (count($schemas) === 1 && is_string($schemas[0]['type'] ?? null)) {
            $schemas[0]['type'] = [$schemas[0]['type'], 'null'];
            if (isset($schemas[0]['enum'])) {
                $schemas[0]['enum'][] = null;
            }
            return $schemas[0];
        }
        return DocType::oneOf([...$schemas, ['type' => 'null']]);
    }

    /** Returns whether PHP accepts a value of this JSON type. */
    private function accepts(string $kind): bool
    {
        $kinds = array_column($this->schemas, 'type');
        return match ($kind) {
            'null' => $this->isNullable,
            'object' => in_array('array', $kinds, true),
            'integer' => in_array('integer', $kinds, true) || in_array('number', $kinds, true),
            default => in_array($kind, $kinds, true),
        };
    }

    /**
     * @param array<string, mixed> $schema
     *
     * @return list<string>
     */
    private static function typesOf(array $schema): array
    {
        return isset($schema['anyOf'])
            ? array_merge(...array_map(self::typesOf(...), $schema['anyOf']))
            : (array) ($schema['type'] ?? []);
    }
}
