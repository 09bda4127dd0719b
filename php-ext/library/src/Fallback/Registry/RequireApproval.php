<?php

declare(strict_types=1);

namespace Pillion\Fallback\Registry;

use Pillion\Exception\InvalidInputException;
use Pillion\Fallback\Executor\ApprovalRules;
use Pillion\Fallback\Failure;

/**
 * What a server entry says of approvals: one policy for all its tools, or names of tools, as OpenAI has it.
 * With a list `never` all others ask, without one nothing is said of them. A tool in both asks.
 *
 * @internal
 */
final class RequireApproval
{
    private const KEY = 'require_approval';

    /** Policies in the words of an entry. */
    public const WORDS = ['auto' => 'never', 'always-ask' => 'always', 'trusted-only' => 'trusted-only'];

    /**
     * @param string|array<string, list<string>>|null $said a policy, or the names in `always` and `never`
     */
    private function __construct(private readonly string|array|null $said)
    {
    }

    /**
     * What cannot be read is an error, lest calls run that somebody wanted to be asked about.
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

    /** The policy for a tool, by the server's name of it; null where nothing is said. */
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
     * The policy for a tool that is PHP code, by its own name. Which of the server's tools it calls is not
     * known, so that one which the lists do not name asks.
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
