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
    /** The conversion of an integer argument in a binding. */
    public const INTEGER = 'int';

    private const JSON_TYPES = [
        'int' => 'integer', 'float' => 'number', 'string' => 'string', 'bool' => 'boolean', 'false' => 'boolean',
        'true' => 'boolean', 'array' => 'array', 'iterable' => 'array',
    ];

    /** @var list<array<string, mixed>> */
    private array $schemas = [];
    /** @var ?class-string<\BackedEnum> */
    private ?string $enumClass = null;
    private bool $isNullable = false;
    /** Whether the type allows any value. */
    private bool $acceptsAnything = false;

    /** @throws \DomainException with the type that is not supported for a tool's parameter */
    public function __construct(?\ReflectionType $declaredType)
    {
        if ($declaredType === null) {
            $this->acceptsAnything = true;
        } elseif ($declaredType instanceof \ReflectionUnionType) {
            foreach ($declaredType->getTypes() as $memberType) {
                $memberType instanceof \ReflectionNamedType ? $this->add($memberType) : throw new \DomainException((string) $declaredType);
            }
        } elseif ($declaredType instanceof \ReflectionNamedType) {
            $this->add($declaredType);
            $this->isNullable = $this->isNullable || ($declaredType->allowsNull() && !$this->acceptsAnything);
        } else {
            throw new \DomainException((string) $declaredType);
        }
    }

    private function add(\ReflectionNamedType $namedType): void
    {
        $name = $namedType->getName();
        if (!$namedType->isBuiltin()) {
            // Two enums in one type are not supported, because the enum of a value would be
            // ambiguous.
            if ($this->enumClass !== null || !enum_exists($name) || !is_subclass_of($name, \BackedEnum::class)) {
                throw new \DomainException($name);
            }
            $this->enumClass = $name;
            $values = array_map(static fn (\BackedEnum $case): int|string => $case->value, $name::cases());
            $type = (string) (new \ReflectionEnum($name))->getBackingType();
            $this->schemas[] = ['type' => self::JSON_TYPES[$type], 'enum' => $values];
        } elseif ($name === 'null') {
            $this->isNullable = true;
        } elseif ($name === 'mixed') {
            $this->acceptsAnything = true;
        } else {
            $this->schemas[] = ['type' => self::JSON_TYPES[$name] ?? throw new \DomainException($name)];
        }
    }

    /** @return class-string<\BackedEnum>|'int'|null the target type of an argument */
    public function targetType(): ?string
    {
        $types = $this->acceptsAnything ? [] : array_column($this->schemas, 'type');
        $isInteger = in_array('integer', $types, true) && !in_array('number', $types, true);
        return $this->enumClass ?? ($isInteger ? self::INTEGER : null);
    }

    /**
     * Returns the schema; a doc comment may make the type more precise.
     *
     * @param ?array<string, mixed> $documentedSchema
     *
     * @return array<string, mixed>
     */
    public function schema(?array $documentedSchema): array
    {
        if ($this->acceptsAnything) {
            return $documentedSchema ?? ['type' => DocType::MIXED_TYPES];
        }
        $usesDocumentedSchema = $documentedSchema !== null && $this->enumClass === null;
        foreach ($usesDocumentedSchema ? self::readJsonTypes($documentedSchema) : [] as $jsonType) {
            $usesDocumentedSchema = $usesDocumentedSchema && $this->accepts($jsonType);
        }
        $schemas = $usesDocumentedSchema ? [$documentedSchema] : $this->schemas;
        $hasNull = in_array('null', array_merge(...array_map(self::readJsonTypes(...), $schemas)), true);
        if (!$this->isNullable || $hasNull) {
            return DocType::combine($schemas);
        }
        if (count($schemas) === 1 && is_string($schemas[0]['type'] ?? null)) {
            $schemas[0]['type'] = [$schemas[0]['type'], 'null'];
            if (isset($schemas[0]['enum'])) {
                $schemas[0]['enum'][] = null;
            }
            return $schemas[0];
        }
        return DocType::combine([...$schemas, ['type' => 'null']]);
    }

    /** Returns whether PHP accepts a value of this JSON type. */
    private function accepts(string $jsonType): bool
    {
        $jsonTypes = array_column($this->schemas, 'type');
        return match ($jsonType) {
            'null' => $this->isNullable,
            'object' => in_array('array', $jsonTypes, true),
            'integer' => in_array('integer', $jsonTypes, true) || in_array('number', $jsonTypes, true),
            default => in_array($jsonType, $jsonTypes, true),
        };
    }

    /**
     * @param array<string, mixed> $schema
     *
     * @return list<string>
     */
    private static function readJsonTypes(array $schema): array
    {
        return isset($schema['anyOf'])
            ? array_merge(...array_map(self::readJsonTypes(...), $schema['anyOf']))
            : (array) ($schema['type'] ?? []);
    }
}
