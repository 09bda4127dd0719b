<?php

declare(strict_types=1);

namespace Pillion\Fallback\Registry;

use Pillion\Exception\InvalidInputException;
use Pillion\Fallback\Failure;
use Pillion\Fallback\NearestKey;

/**
 * Checks the keys of a model that decide which tools the model sees. A model may have other keys, but a misspelled or
 * misplaced `enabled_tools` would offer all tools.
 *
 * @internal
 */
final class ModelKeys
{
    public const CAPABILITIES = ['function_calling', 'mcp', 'enabled_tools'];

    /**
     * Matches keys such as `allowedTools`, `tool_calling` or `mcp_enabled`, which probably decide
     * which tools a model sees.
     */
    private const SUBJECT = '/(^|_)(tools?|functions?|mcp)(_|$)/';
    private const RULE = '/(^|_)(enabled?|allow(ed)?|only|call(s|ing)?|list|names?|filter|except|exclud(e|ed)|disabled?|den(y|ied)|block(ed)?)(_|$)/';

    /**
     * Maximum number of keys of applications that are remembered, and maximum length of such a
     * key.
     */
    private const MAX_ACCEPTED = 100;

    /** @var array<int, array<string, true>> keys that resemble no known key, by the number of known keys: comparing takes time */
    private static array $accepted = [];

    /**
     * @param array<array-key, mixed> $model
     * @param string                  $path  the path of the model, for error messages
     * @param list<string>            $known other keys of the model, which must not be misspelled either
     *
     * @throws InvalidInputException naming the key
     */
    public static function check(#[\SensitiveParameter] array $model, string $path, array $known = []): void
    {
        $tools = $model['tools'] ?? null;
        $tools = $tools instanceof \stdClass ? get_object_vars($tools) : $tools;
        foreach (self::CAPABILITIES as $key) {
            if (array_key_exists('tools', $model) && array_key_exists($key, $model)) {
                throw Failure::invalidInput("$path.$key has no effect beside $path.tools: move it into tools");
            }
        }
        self::checkLevel($model, $path, [...self::CAPABILITIES, 'tools', ...$known]);
        if (is_array($tools)) {
            self::checkLevel($tools, "$path.tools", self::CAPABILITIES);
        }
    }

    /**
     * @param array<array-key, mixed> $level
     * @param list<string>            $known
     */
    private static function checkLevel(#[\SensitiveParameter] array $level, string $path, array $known): void
    {
        if (array_key_exists('enabled_tools', $level) && $level['enabled_tools'] === null) {
            throw Failure::invalidInput("$path.enabled_tools must be a list of names, not null: null would enable all tools");
        }
        foreach ($level as $key => $value) {
            $key = (string) $key;
            if (in_array($key, $known, true)) {
                continue;
            }
            self::rejectSimilar($key, $path, $known);
            if (!is_array($value) && !$value instanceof \stdClass) {
                continue;
            }
            $members = is_array($value) ? $value : get_object_vars($value);
            $misplaced = array_intersect(array_map('strval', array_keys($members)), $known);
            if (array_intersect($misplaced, [...self::CAPABILITIES, 'tools']) !== []) {
                throw Failure::invalidInput("$path.$key." . reset($misplaced) . " has no effect: move it one level up, into $path");
            }
        }
    }

    /** @param list<string> $known */
    private static function rejectSimilar(string $key, string $path, array $known): void
    {
        $number = count($known);
        if (isset(self::$accepted[$number][$key])) {
            return;
        }
        $nearest = NearestKey::find($key, $known);
        if ($nearest !== null) {
            throw Failure::invalidInput("$path.$key is unknown: did you mean '$nearest'?");
        }
        if (self::concernsTools($key)) {
            throw Failure::invalidInput("$path.$key is unknown: expected one of " . implode(', ', self::CAPABILITIES));
        }
        if (count(self::$accepted[$number] ?? []) < self::MAX_ACCEPTED && strlen($key) <= self::MAX_ACCEPTED) {
            self::$accepted[$number][$key] = true;
        }
    }

    private static function concernsTools(string $key): bool
    {
        $words = strtolower((string) preg_replace(['/(?<=[a-z0-9])(?=[A-Z])/', '/[^A-Za-z0-9]+/'], '_', $key));
        return preg_match(self::SUBJECT, $words) === 1 && preg_match(self::RULE, $words) === 1;
    }
}
