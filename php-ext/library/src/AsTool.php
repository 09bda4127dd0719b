<?php

declare(strict_types=1);

namespace Pillion;

/**
 * Turns a method, a function, or a class with `__invoke()` or `execute()` into a tool.
 *
 * @see ToolRegistry::registerObject()
 * @see ToolDefinition::fromCallable()
 */
#[\Attribute(\Attribute::TARGET_CLASS | \Attribute::TARGET_FUNCTION | \Attribute::TARGET_METHOD)]
class AsTool
{
    /**
     * @var ?string null: the name of the method or function, or the class name in snake case
     *     (`RollDice` becomes `roll_dice`)
     */
    public readonly ?string $name;
    /** @var ?string null: the summary of the doc comment */
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
