<?php

declare(strict_types=1);

namespace Pillion\Fallback\Registry;

use Pillion\Fallback\Failure;
use Pillion\Fallback\Json;

/**
 * A model's tool capabilities, and the tools that the model may see.
 *
 * @internal
 */
final class Capabilities
{
    /** @param list<string> $enabledTools */
    private function __construct(
        private readonly bool $hasFunctionCalling,
        private readonly bool $hasMcp,
        private readonly array $enabledTools,
    ) {
    }

    /**
     * Reads the capabilities from an array (a configuration with the key `tools`, or the value of that key)
     * or from an object with `getTools()` or with public properties named like the keys of the array.
     *
     * @param array<array-key, mixed>|object $model
     *
     * @throws \Pillion\Exception\InvalidInputException naming the key with the invalid value
     */
    public static function fromModel(array|object $model): self
    {
        $hasGetter = is_object($model) && method_exists($model, 'getTools');
        $modelTree = Json::toTree($hasGetter ? $model->getTools() : $model);
        $tools = $modelTree;
        if ($modelTree instanceof \stdClass) {
            ModelKeys::check(get_object_vars($modelTree), 'model');
            if (!$hasGetter && property_exists($modelTree, 'tools')) {
                $tools = $modelTree->tools;
            }
        }
        if (!$tools instanceof \stdClass && $tools !== [] && $tools !== null) {
            throw self::wrongType('tools', 'a map', $tools);
        }
        $readFlag = static fn (string $key): bool => self::parseFlag("tools.$key", $tools->$key ?? null);
        return new self($readFlag('function_calling'), $readFlag('mcp'), self::parseNames('tools.enabled_tools', $tools->enabled_tools ?? null));
    }

    /** Returns the reason why the model must not see a tool; null if the model is allowed to see the tool. */
    public function hiddenReason(string $name, ?ToolOrigin $origin): ?string
    {
        return match (true) {
            !$this->hasFunctionCalling => 'model cannot call functions',
            $origin !== null && !$this->hasMcp => "model has no 'mcp' flag",
            $this->enabledTools !== [] && !in_array($name, $this->enabledTools, true) => 'not in enabled_tools',
            $origin !== null && trim($origin->url) === '' => 'MCP server has no URL',
            default => null,
        };
    }

    /**
     * Reads a boolean. Also accepts the values that environment variables and databases use for
     * booleans, such as `0` and `'true'`.
     */
    private static function parseFlag(string $path, mixed $value): bool
    {
        $normalizedValue = is_string($value) ? strtolower(trim($value)) : $value;
        return match (true) {
            $normalizedValue === null, $normalizedValue === false, $normalizedValue === 0, $normalizedValue === 'false', $normalizedValue === '0', $normalizedValue === '' => false,
            $normalizedValue === true, $normalizedValue === 1, $normalizedValue === 'true', $normalizedValue === '1' => true,
            default => throw self::wrongType($path, 'a boolean', $value),
        };
    }

    /**
     * Reads a list of names. PHP encodes a list with gaps (after `array_filter`) as a map with
     * numeric keys, which is accepted. Any other map is rejected, because a list of names that is
     * read incorrectly could allow every tool.
     *
     * @return list<string>
     */
    private static function parseNames(string $path, mixed $value): array
    {
        if ($value instanceof \stdClass) {
            $names = get_object_vars($value);
            foreach (array_keys($names) as $key) {
                if (preg_match('/^\d+$/D', (string) $key) !== 1) {
                    throw self::wrongType($path, 'a list', $value);
                }
            }
        } elseif ($value !== null && !is_array($value)) {
            throw self::wrongType($path, 'a list', $value);
        } else {
            $names = $value ?? [];
        }
        foreach ($names as $index => $name) {
            if (!is_string($name)) {
                throw self::wrongType("{$path}[$index]", 'a string', $name);
            }
        }
        return array_values($names);
    }

    private static function wrongType(string $path, string $expectedType, mixed $value): \Throwable
    {
        $foundValue = match (true) {
            $value === null => 'null',
            is_bool($value) => 'the boolean ' . Json::encode($value),
            is_int($value), is_float($value) => 'the number ' . Json::encode($value),
            is_string($value) => preg_match('/^.{0,40}$/suD', $value) === 1 ? "the string '$value'" : 'a long string',
            is_array($value) => 'a list',
            default => 'a map',
        };
        return Failure::invalidInput("$path: expected $expectedType, found $foundValue");
    }
}
