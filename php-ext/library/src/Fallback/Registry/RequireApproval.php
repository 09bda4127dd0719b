<?php

declare(strict_types=1);

namespace Pillion\Fallback\Registry;

use Pillion\Exception\InvalidInputException;
use Pillion\Fallback\Failure;
use Pillion\Fallback\NearestKey;

/**
 * The `require_approval` setting of a server entry: one policy for all tools of the server, or the
 * lists of tool names `always` and `never`, as in OpenAI's API.
 *
 *  - A tool in `always` needs approval, even if `never` also contains the tool.
 *  - A tool that only `never` contains needs no approval.
 *  - A tool in neither list needs approval if the setting has a list `never`. Otherwise, the
 *    setting contains no policy for the tool.
 *
 * @internal
 */
final class RequireApproval
{
    private const REQUIRE_APPROVAL = 'require_approval';

    /**
     * The approval policies by the names that the setting accepts, which include the names of
     * OpenAI's API.
     */
    private const POLICIES_BY_SETTING = [
        'auto' => 'auto', 'never' => 'auto',
        'always-ask' => 'always-ask', 'always' => 'always-ask', 'prompt' => 'always-ask',
        'trusted-only' => 'trusted-only',
    ];

    /** The value of OpenAI's `require_approval` for each approval policy. */
    public const SETTINGS_BY_POLICY = ['auto' => 'never', 'always-ask' => 'always', 'trusted-only' => 'trusted-only'];

    /**
     * @param string|array<string, list<string>>|null $setting a policy, or the tool names in `always` and `never`
     */
    private function __construct(private readonly string|array|null $setting)
    {
    }

    /**
     * Reads the setting. A misspelled key and an invalid value are errors, so that no call runs without a required approval.
     *
     * @param array<array-key, mixed> $entry
     *
     * @throws InvalidInputException
     */
    public static function fromEntry(#[\SensitiveParameter] array $entry): self
    {
        if (!array_key_exists(self::REQUIRE_APPROVAL, $entry)) {
            foreach (array_keys($entry) as $key) {
                if (NearestKey::find((string) $key, [self::REQUIRE_APPROVAL]) !== null) {
                    throw Failure::invalidInput("The server's '$key' is unknown: did you mean '" . self::REQUIRE_APPROVAL . "'?");
                }
            }
            return new self(null);
        }
        $value = $entry[self::REQUIRE_APPROVAL];
        return match (true) {
            $value === null => new self(null),
            is_string($value) => new self(self::POLICIES_BY_SETTING[$value] ?? throw self::invalidSetting()),
            is_array($value) && $value !== [] => new self(self::parseFilters($value)),
            default => throw self::invalidSetting(),
        };
    }

    /**
     * Returns the policy for a tool, given by its name on the server; null if the entry sets no
     * policy.
     */
    public function policyFor(string $toolName): ?string
    {
        if (!is_array($this->setting)) {
            return $this->setting;
        }
        return match (true) {
            in_array($toolName, $this->setting['always'] ?? [], true) => 'always-ask',
            in_array($toolName, $this->setting['never'] ?? [], true) => 'auto',
            default => isset($this->setting['never']) ? 'always-ask' : null,
        };
    }

    /**
     * Returns the policy for the PHP tool with this name. The registry does not know which server
     * tools a PHP tool calls, so a PHP tool that the lists do not name needs approval.
     */
    public function policyForPhpTool(string $toolName): ?string
    {
        return $this->policyFor($toolName) ?? (is_array($this->setting) ? 'always-ask' : null);
    }

    /**
     * @param array<array-key, mixed> $value
     *
     * @return array<string, list<string>>
     */
    private static function parseFilters(array $value): array
    {
        $filters = [];
        foreach (array_filter($value, static fn (mixed $filter): bool => $filter !== null) as $key => $filter) {
            $names = is_array($filter) && array_keys($filter) === ['tool_names'] ? $filter['tool_names'] : null;
            $isList = is_array($names) && array_is_list($names) && array_filter($names, is_string(...)) === $names;
            if (!$isList || !in_array($key, ['always', 'never'], true)) {
                throw self::invalidSetting();
            }
            $filters[$key] = $names;
        }
        return $filters === [] ? throw self::invalidSetting() : $filters;
    }

    private static function invalidSetting(): InvalidInputException
    {
        return Failure::invalidInput(
            "The server's 'require_approval' must be always, prompt, never or a policy (auto, always-ask, trusted-only),"
            . " or lists of names: ['always' => ['tool_names' => [...]], 'never' => ['tool_names' => [...]]]",
        );
    }
}
