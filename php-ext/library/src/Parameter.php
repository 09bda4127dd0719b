<?php

declare(strict_types=1);

namespace Pillion;

/**
 * Describes a tool parameter beyond its type and doc comment.
 */
#[\Attribute(\Attribute::TARGET_PARAMETER)]
class Parameter
{
    /** @var ?string null: the text of `@param` */
    public readonly ?string $description;
    /** @var ?list<mixed> the allowed values */
    public readonly ?array $enum;
    public readonly int|float|null $minimum;
    public readonly int|float|null $maximum;
    public readonly ?int $minLength;
    public readonly ?int $maxLength;
    /** @var ?string a regular expression without delimiters */
    public readonly ?string $pattern;
    public readonly ?string $format;
    /** @var ?array<string, mixed> additional JSON Schema keywords */
    public readonly ?array $schema;

    /**
     * @param ?list<mixed>          $enum
     * @param ?array<string, mixed> $schema
     */
    public function __construct(
        ?string $description = null,
        ?array $enum = null,
        int|float|null $minimum = null,
        int|float|null $maximum = null,
        ?int $minLength = null,
        ?int $maxLength = null,
        ?string $pattern = null,
        ?string $format = null,
        ?array $schema = null,
    ) {
        $this->description = $description;
        $this->enum = $enum;
        $this->minimum = $minimum;
        $this->maximum = $maximum;
        $this->minLength = $minLength;
        $this->maxLength = $maxLength;
        $this->pattern = $pattern;
        $this->format = $format;
        $this->schema = $schema;
    }
}
