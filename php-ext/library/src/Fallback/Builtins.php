<?php

declare(strict_types=1);

namespace Pillion\Fallback;

use Pillion\NativeTool;
use Pillion\ToolDefinition;

/**
 * The definitions of the engine's built-in tools, which the sidecar runs. A test compares
 * them with what the sidecar says.
 *
 * @internal
 */
final class Builtins
{
    /** @return list<NativeTool> */
    public static function all(): array
    {
        $make = \Closure::bind(
            static fn (ToolDefinition $definition): NativeTool => new NativeTool($definition),
            null,
            NativeTool::class,
        );
        return array_map($make, self::definitions());
    }

    /** @return list<ToolDefinition> */
    private static function definitions(): array
    {
        return [
            new ToolDefinition(
                'calculator',
                'Perform mathematical calculations: + - * /, // (division rounded down), % (remainder), ** (power, not ^) and parentheses, lists such as [1, 2], the functions abs, round, min, max, sum, sqrt, pow, sin, cos, tan (in radians), log (natural, or with a base), log10, and the constants pi and e. Also \'15% of 47.5\'.',
                [
                    ['name' => 'expression', 'type' => 'string', 'description' => 'Mathematical expression to evaluate (e.g., \'2 + 2\', \'sqrt(16)\', \'2**10\')'],
                ],
                category: 'math',
            ),
            new ToolDefinition(
                'get_time',
                'Get current date and time, optionally in a specific timezone.',
                [
                    ['name' => 'timezone', 'type' => 'string', 'description' => 'Timezone name (e.g., \'America/New_York\', \'Europe/London\', \'UTC\')', 'required' => false, 'default' => 'UTC'],
                    ['name' => 'format', 'type' => 'string', 'description' => 'Output format: \'full\', \'date\', \'time\', \'iso\' or \'timestamp\'', 'required' => false, 'enum' => ['full', 'date', 'time', 'iso', 'timestamp'], 'default' => 'full'],
                ],
                category: 'utility',
            ),
            new ToolDefinition(
                'roll_dice',
                'Roll dice using standard notation (e.g., \'2d6\', \'1d20+5\', \'4d6kh3\').',
                [
                    ['name' => 'notation', 'type' => 'string', 'description' => 'Dice notation (e.g., \'2d6\', \'1d20+5\', \'3d6kh2\' for keep highest 2). Give this, \'formula\' or \'dice\'', 'required' => false],
                    ['name' => 'formula', 'type' => 'string', 'description' => 'The same as \'notation\'', 'required' => false],
                    ['name' => 'dice', 'type' => 'string', 'description' => 'The same as \'notation\'', 'required' => false],
                    ['name' => 'advantage', 'type' => 'boolean', 'description' => 'Roll a single d20 twice and keep the higher', 'required' => false],
                    ['name' => 'disadvantage', 'type' => 'boolean', 'description' => 'Roll a single d20 twice and keep the lower', 'required' => false],
                    ['name' => 'seed', 'type' => 'integer', 'description' => 'Equal seeds give equal rolls', 'required' => false],
                    ['name' => 'reason', 'type' => 'string', 'description' => 'What the roll is for', 'required' => false],
                ],
                category: 'fun',
            ),
        ];
    }
}
