<?php

declare(strict_types=1);

namespace Pillion\Fallback\Registry;

use Pillion\Exception\InvalidInputException;
use Pillion\Fallback\Failure;
use Pillion\Fallback\NearestKey;

/**
 * Checks the keys that determine which tools a model sees. Unknown keys are permitted unless they
 * resemble these keys, because a misspelled or misplaced `enabled_tools` would offer all tools to
 * the model.
 *
 * @internal
 */
final class ModelKeys
{
    public const CAPABILITIES = ['function_calling', 'mcp', 'enabled_tools'];

    /**
     * `SUBJECT_PATTERN` and `RULE_PATTERN` together match keys such as `allowedTools`,
     * `tool_calling` or `mcp_enabled`, which are probably meant to determine which tools a model
     * sees.
     */
    private const SUBJECT_PATTERN = '/(^|_)(tools?|functions?|mcp)(_|$)/';
    private const RULE_PATTERN = '/(^|_)(enabled?|allow(ed)?|only|call(s|ing)?|list|names?|filter|except|exclud(e|ed)|disabled?|den(y|ied)|block(ed)?)(_|$)/';

    /** Maximum number of cached model keys. Also the maximum length of a cached key, in bytes. */
    private const MAX_CACHED_KEYS = 100;

    /**
     * @var array<int, array<string, true>> the keys that resemble no known key, indexed by the number of known keys;
     *     cached, because the comparison of keys is slow
     */
    private static array $unrelatedKeys = [];

    /**
     * @param array<array-key, mixed> $model
     * @param string                  $path  the path of the model, for error messages
     * @param list<string>            $knownKeys other keys of the model, which must not be misspelled either
     *
     * @throws InvalidInputException naming the key
     */
    public static function check(#[\SensitiveParameter] array $model, string $path, array $knownKeys = []): void
    {
        $toolSettings = $model['tools'] ?? null;
        $tools = $toolSettings instanceof \stdClass ? get_object_vars($toolSettings) : $toolSettings;
        foreach (self::CAPABILITIES as $key) {
            if (array_key_exists('tools', $model) && array_key_exists($key, $model)) {
                throw Failure::invalidInput("$path.$key has no effect beside $path.tools: move it into tools");
            }
        }
        self::checkLevel($model, $path, [...self::CAPABILITIES, 'tools', ...$knownKeys]);
        if (is_array($tools)) {
            self::checkLevel($tools, "$path.tools", self::CAPABILITIES);
        }
    }

    /**
     * @param array<array-key, mixed> $members
     * @param list<string>            $knownKeys
     */
    private static function checkLevel(#[\SensitiveParameter] array $members, string $path, array $knownKeys): void
    {
        if (array_key_exists('enabled_tools', $members) && $members['enabled_tools'] === null) {
            throw Failure::invalidInput("$path.enabled_tools must be a list of names, not null: null would enable all tools");
        }
        foreach ($members as $arrayKey => $value) {
            $key = (string) $arrayKey;
            if (in_array($key, $knownKeys, true)) {
                continue;
            }
            self::rejectSimilar($key, $path, $knownKeys);
            if (!is_array($value) && !$value instanceof \stdClass) {
                continue;
            }
            $nestedMembers = is_array($value) ? $value : get_object_vars($value);
            $misplacedKeys = array_intersect(array_map('strval', array_keys($nestedMembers)), $knownKeys);
            if (array_intersect($misplacedKeys, [...self::CAPABILITIES, 'tools']) !== []) {
                throw Failure::invalidInput("$path.$key." . reset($misplacedKeys) . " has no effect: move it one level up, into $path");
            }
        }
    }

    /** @param list<string> $knownKeys */
    private static function rejectSimilar(string $key, string $path, array $knownKeys): void
    {
        $knownCount = count($knownKeys);
        if (isset(self::$unrelatedKeys[$knownCount][$key])) {
            return;
        }
        $nearestKey = NearestKey::find($key, $knownKeys);
        if ($nearestKey !== null) {
            throw Failure::invalidInput("$path.$key is unknown: did you mean '$nearestKey'?");
        }
        if (self::concernsTools($key)) {
            throw Failure::invalidInput("$path.$key is unknown: expected one of " . implode(', ', self::CAPABILITIES));
        }
        if (count(self::$unrelatedKeys[$knownCount] ?? []) < self::MAX_CACHED_KEYS && strlen($key) <= self::MAX_CACHED_KEYS) {
            self::$unrelatedKeys[$knownCount][$key] = true;
        }
    }

    private static function concernsTools(string $key): bool
    {
        $words = strtolower((string) preg_replace(['/(?<=[a-z0-9])(?=[A-Z])/', '/[^A-Za-z0-9]+/'], '_', $key));
        return preg_match(self::SUBJECT_PATTERN, $words) === 1 && preg_match(self::RULE_PATTERN, $words) === 1;
    }
}
