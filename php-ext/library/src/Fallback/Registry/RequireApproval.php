<?php

declare(strict_types=1);

namespace Pillion\Fallback\Registry;

use Pillion\Exception\InvalidInputException;
use Pillion\Fallback\Failure;
use Pillion\Fallback\NearestKey;

/**
 * The `require_approval` setting of a server entry: one policy for all tools of the server, or lists of tool
 * names as in OpenAI's API. With a `never` list, all other tools need approval; without one, other tools have
 * no policy. A tool in both lists needs approval.
 *
 * @internal
 */
final class RequireApproval
{
    private const KEY = 'require_approval';

    /** The names of policies, including those of OpenAI's API. */
    private const POLICIES = [
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
        if (!array_key_exists(self::KEY, $entry)) {
            foreach (array_keys($entry) as $key) {
                if (NearestKey::find((string) $key, [self::KEY]) !== null) {
                    throw Failure::invalidInput("The server's '$key' is unknown: did you mean '" . self::KEY . "'?");
                }
            }
            return new self(null);
        }
        $value = $entry[self::KEY];
        return match (true) {
            $value === null => new self(null),
            is_string($value) => new self(self::POLICIES[$value] ?? throw self::invalid()),
            is_array($value) && $value !== [] => new self(self::filters($value)),
            default => throw self::invalid(),
        };
    }

    /** Returns the policy for a tool, by the server's name of the tool; null if the entry sets no policy. */
    public function policyFor(string $tool): ?string
    {
        if (!is_array($this->setting)) {
            return $this->setting;
        }
        return match (true) {
            in_array($tool, $this->setting['always'] ?? [], true) => 'always-ask',
            in_array($tool, $this->setting['never'] ?? [], true) => 'auto',
            default => isset($this->setting['never']) ? 'always-ask' : null,
        };
    }

    /**
     * Returns the policy for a PHP tool, by its own name. The server tools that it calls are unknown, so a
     * tool that the lists do not name needs approval.
     */
    public function policyForPhpTool(string $tool): ?string
    {
        return $this->policyFor($tool) ?? (is_array($this->setting) ? 'always-ask' : null);
    }

    /**
     * @param array<array-key, mixed> $value
     *
     * @return array<string, list<string>>
     */
    private static function filters(array $value): array
    {
        $filters = [];
        foreach (array_filter($value, static fn (mixed $filter): bool => $filter !== null) as $key => $filter) {
            $names = is_array($filter) && array_keys($filter) === ['tool_names'] ? $filter['tool_names'] : null;
            $isList = is_array($names) && array_is_list($names) && array_filter($names, is_string(...)) === $names;
            if (!$isList || !in_array($key, ['always', 'never'], true)) {
                throw self::invalid();
            }
            $filters[$key] = $names;
        }
        return $filters === [] ? throw self::invalid() : $filters;
    }

    private static function invalid(): InvalidInputException
    {
        return Failure::invalidInput(
            "The server's 'require_approval' must be always, prompt, never or a policy (auto, always-ask, trusted-only),"
            . " or lists of names: ['always' => ['tool_names' => [...]], 'never' => ['tool_names' => [...]]]",
        );
    }
}
