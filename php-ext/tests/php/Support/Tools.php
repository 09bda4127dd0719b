<?php

declare(strict_types=1);

namespace Pillion\Tests\Support;

use Pillion\AsTool;
use Pillion\Parameter;
use Pillion\ToolResult;

enum Unit: string
{
    case Celsius = 'celsius';
    case Fahrenheit = 'fahrenheit';
}

enum Level: int
{
    case Low = 1;
    case High = 2;
}

enum Pure
{
    case Only;
}

/** Tools as methods. */
class Tools
{
    public array $seen = [];

    public function __construct(private string $greeting = 'Hello')
    {
    }

    /**
     * Forecasts the weather
     * of a place.
     *
     * More that models need not read.
     *
     * @param string            $place where it is,
     *                                 in any language
     * @param Unit              $unit  of the temperature
     * @param list<int>         $days
     * @param array{a: int, 'b c'?: bool|null} $options
     */
    #[AsTool(category: 'weather', cooldownSeconds: 2)]
    public function forecast(
        string $place,
        Unit $unit = Unit::Celsius,
        array $days = [1],
        ?Level $level = null,
        #[Parameter(description: 'how sure', minimum: 0, maximum: 1)]
        float $certainty = 0.5,
        array $options = [],
    ): array {
        $this->seen[] = func_get_args();
        return ['place' => $place, 'unit' => $unit->name, 'days' => $days, 'level' => $level?->name, 'certainty' => $certainty];
    }

    /** Greets. */
    #[AsTool('say_hello', requiresConfirmation: true, strict: true)]
    public function hello(#[Parameter(pattern: '^[A-Z]', schema: ['examples' => ['Ada']])] string $name): ToolResult
    {
        return ToolResult::success("$this->greeting $name");
    }

    #[AsTool(description: 'Adds two numbers')]
    public static function add(int|float $a, int|float $b): int|float
    {
        return $a + $b;
    }

    /** No tool. */
    public function other(): void
    {
    }
}

/** Rolls dice. */
#[AsTool(category: 'games')]
final class RollDice2
{
    public function __invoke(int $sides = 6): int
    {
        return $sides;
    }
}
