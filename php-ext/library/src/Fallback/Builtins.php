<?php

declare(strict_types=1);

namespace Pillion\Fallback;

use Pillion\NativeTool;
use Pillion\ToolDefinition;

/**
 * The definitions of the built-in tools, which the sidecar runs. A test compares these definitions with the
 * definitions of the sidecar.
 *
 * @internal
 */
final class Builtins
{
    /** Alternative tool names, for prompts written for other systems. */
    public const ALIASES = [
        'search_tool' => 'web_search',
        'time_tool' => 'get_time',
        'weather_tool' => 'get_weather',
        'weather' => 'get_weather',
    ];

    /** @return list<NativeTool> */
    public static function all(): array
    {
        return self::tools(self::definitions(), usesService: false);
    }

    /**
     * Returns the network tools named by `$services`. The sidecar must be configured to offer the
     * network tools. `get_time` is allowed as a key, but is always available.
     *
     * @param array<array-key, mixed> $services
     *
     * @return list<NativeTool>
     */
    public static function createServiceTools(array $services): array
    {
        $definitions = self::serviceDefinitions();
        foreach ($services as $name => $settings) {
            if (!isset($definitions[$name]) && $name !== 'get_time') {
                throw Failure::invalidInput("Unknown service '$name': expected one of get_time, " . implode(', ', array_keys($definitions)));
            }
            if ($settings !== []) {
                throw Failure::unavailable("The sidecar runs '$name' with its own configuration: the settings of '$name' must be empty");
            }
        }
        return self::tools(array_values(array_intersect_key($definitions, $services)), usesService: true);
    }

    /**
     * @param list<ToolDefinition> $definitions
     *
     * @return list<NativeTool>
     */
    private static function tools(array $definitions, bool $usesService): array
    {
        $createTool = \Closure::bind(
            static fn (ToolDefinition $definition): NativeTool => new NativeTool($definition, $usesService),
            null,
            NativeTool::class,
        );
        return array_map($createTool, $definitions);
    }

    /** @return array<string, ToolDefinition> the network tools by name */
    private static function serviceDefinitions(): array
    {
        return [
            'get_weather' => new ToolDefinition(
                'get_weather',
                'Get the current weather of a location.',
                [
                    ['name' => 'location', 'type' => 'string', 'description' => 'City name, with region or country where the name alone is not clear (e.g., \'Tokyo\', \'Springfield, Illinois\'), or \'latitude,longitude\''],
                    ['name' => 'units', 'type' => 'string', 'description' => 'Units of the temperature: \'celsius\' or \'fahrenheit\'', 'required' => false, 'enum' => ['celsius', 'fahrenheit'], 'default' => 'celsius'],
                ],
                category: 'information',
            ),
            'web_search' => new ToolDefinition(
                'web_search',
                'Search the web for information.',
                [
                    ['name' => 'query', 'type' => 'string', 'description' => 'What to search for'],
                    ['name' => 'num_results', 'type' => 'integer', 'description' => 'Number of results, 1 to 10', 'required' => false, 'default' => 5],
                ],
                category: 'information',
            ),
        ];
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
                    ['name' => 'notation', 'type' => 'string', 'description' => 'Dice notation (e.g., \'2d6\', \'1d20+5\', \'3d6kh2\' for keep highest 2). Pass only one of \'notation\', \'formula\' and \'dice\'', 'required' => false],
                    ['name' => 'formula', 'type' => 'string', 'description' => 'Alias of \'notation\'', 'required' => false],
                    ['name' => 'dice', 'type' => 'string', 'description' => 'Alias of \'notation\'', 'required' => false],
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
