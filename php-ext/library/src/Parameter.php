<?php

declare(strict_types=1);

namespace Pillion;

/**
 * Describes a tool parameter beyond its type and doc comment.
 */
#[\Attribute(\Attribute::TARGET_PARAMETER)]
class Parameter
{
    /**
     * @param ?string               $description null: the text of `@param`
     * @param ?list<mixed>          $enum        the allowed values
     * @param ?string               $pattern     a regular expression without delimiters
     * @param ?array<string, mixed> $schema      additional JSON Schema keywords
     */
    public function __construct(
        public readonly ?string $description = null,
        public readonly ?array $enum = null,
        public readonly int|float|null $minimum = null,
        public readonly int|float|null $maximum = null,
        public readonly ?int $minLength = null,
        public readonly ?int $maxLength = null,
        public readonly ?string $pattern = null,
        public readonly ?string $format = null,
        public readonly ?array $schema = null,
    ) {
    }
}
