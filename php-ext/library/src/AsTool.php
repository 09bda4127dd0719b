<?php

declare(strict_types=1);

namespace Pillion;

/**
 * Makes a tool of a method, a function, or a class with `__invoke()` or `execute()`.
 *
 * @see ToolRegistry::registerObject()
 * @see ToolDefinition::fromCallable()
 */
#[\Attribute(\Attribute::TARGET_CLASS | \Attribute::TARGET_FUNCTION | \Attribute::TARGET_METHOD)]
class AsTool
{
    /** @var ?string else the name of the method or function; of a class `RollDice` it is `roll_dice` */
    public readonly ?string $name;
    /** @var ?string else the summary of the doc comment */
    public readonly ?string $description;
    public readonly string $category;
    public readonly bool $requiresConfirmation;
    public readonly float $cooldownSeconds;
    public readonly bool $strict;

    public function __construct(
        ?string $name = null,
        ?string $description = null,
        string $category = 'general',
        bool $requiresConfirmation = false,
        int|float $cooldownSeconds = 0,
        bool $strict = false,
    ) {
        $this->name = $name;
        $this->description = $description;
        $this->category = $category;
        $this->requiresConfirmation = $requiresConfirmation;
        $this->cooldownSeconds = (float) $cooldownSeconds;
        $this->strict = $strict;
    }
}
