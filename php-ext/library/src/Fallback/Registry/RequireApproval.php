<?php

declare(strict_types=1);

namespace Pillion\Fallback\Registry;

use Pillion\Exception\InvalidInputException;
use Pillion\Fallback\Executor\ApprovalRules;
use Pillion\Fallback\Failure;

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

    /** Policies in the terms of `require_approval`. */
    public const WORDS = ['auto' => 'never', 'always-ask' => 'always', 'trusted-only' => 'trusted-only'];

    /**
     * @param string|array<string, list<string>>|null $said a policy, or the tool names in `always` and `never`
     */
    private function __construct(private readonly string|array|null $said)
    {
    }

    /**
     * Reads the setting. An invalid value is an error, so that no call runs without a required approval.
     *
     * @param array<array-key, mixed> $entry
     *
     * @throws InvalidInputException
     */
    public static function ofEntry(#[\SensitiveParameter] array $entry): self
    {
        $given = $entry[self::KEY] ?? null;
        return match (true) {
            $given === null => new self(null),
            is_string($given) => new self(ApprovalRules::POLICIES[$given] ?? throw self::invalid()),
            is_array($given) && $given !== [] => new self(self::filters($given)),
            default => throw self::invalid(),
        };
    }

    /** Returns the policy for a tool, by the server's name of the tool; null if the entry sets no policy. */
    public function of(string $tool): ?string
    {
        if (!is_array($this->said)) {
            return $this->said;
        }
        return match (true) {
            in_array($tool, $this->said['always'] ?? [], true) => 'always-ask',
            in_array($tool, $this->said['never'] ?? [], true) => 'auto',
            default => isset($this->said['never']) ? 'always-ask' : null,
        };
    }

    /**
     * Returns the policy for a PHP tool, by its own name. The server tools that it calls are unknown, so a
     * tool that the lists do not name needs approval.
     */
    public function ofPhpTool(string $tool): ?string
    {
        return $this->of($tool) ?? (is_array($this->said) ? 'always-ask' : null);
    }

    /**
     * @param array<array-key, mixed> $given
     *
     * @return array<string, list<string>>
     */
    private static function filters(array $given): array
    {
        $filters = [];
        foreach (array_filter($given, static fn (mixed $filter): bool => $filter !== null) as $key => $filter) {
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
