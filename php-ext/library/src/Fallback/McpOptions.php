<?php

declare(strict_types=1);

namespace Pillion\Fallback;

use Pillion\CancellationToken;
use Pillion\Fallback\Executor\ToolFailure;
use Pillion\ToolResult;

/**
 * The options of a call of McpClient, and the conversion of its outcome.
 *
 * @internal
 */
final class McpOptions
{
    private const NAMES = ['timeout', 'on_progress', 'cancellation', 'meta', 'id', 'max_concurrent'];

    public readonly ?float $timeout;
    public readonly ?CancellationToken $cancellation;
    public readonly string $id;

    /**
     * @param array<array-key, mixed> $given
     *
     * @throws \Pillion\Exception\InvalidInputException naming the option
     * @throws \Pillion\Exception\UnavailableException  for an option that the sidecar does not forward
     */
    public function __construct(array $given)
    {
        foreach (array_keys($given) as $name) {
            if (!in_array($name, self::NAMES, true)) {
                throw Failure::invalidInput("Unknown option '$name'");
            }
        }
        $given = array_filter($given, static fn (mixed $value): bool => $value !== null);
        $wrong = static fn (string $name, string $expected): \Throwable => Failure::invalidInput(
            "The option '$name' must be $expected, " . get_debug_type($given[$name]) . ' given',
        );
        $fits = [
            'timeout' => [static fn (mixed $value): bool => is_int($value) || is_float($value), 'a number of seconds'],
            'on_progress' => [is_callable(...), 'callable'],
            'cancellation' => [static fn (mixed $value): bool => $value instanceof CancellationToken, 'a Pillion\CancellationToken'],
            'meta' => [is_array(...), 'an array'],
            'id' => [is_string(...), 'a string'],
            'max_concurrent' => [static fn (mixed $value): bool => is_int($value) && $value > 0, 'a positive integer'],
        ];
        foreach ($given as $name => $value) {
            [$check, $expected] = $fits[$name];
            if (!$check($value)) {
                throw $wrong($name, $expected);
            }
        }
        if (($given['meta'] ?? []) !== []) {
            throw Failure::unavailable("The option 'meta' cannot go through the sidecar: the extension ext-pillion can send it");
        }
        $this->timeout = isset($given['timeout']) ? Argument::seconds('timeout', $given['timeout']) : null;
        $this->cancellation = $given['cancellation'] ?? null;
        $this->id = $given['id'] ?? '';
    }

    /** @param mixed $tree the server's result; `isError` marks a failed result */
    public static function result(string $id, string $name, mixed $tree): ToolResult
    {
        $failed = $tree instanceof \stdClass && ($tree->isError ?? false) === true;
        $shown = Json::shown($tree);
        if (!$failed) {
            return new ToolResult($id, $name, $shown);
        }
        $text = (new ToolResult($id, $name, Json::arrays($tree)))->text();
        return new ToolResult($id, $name, $shown, false, $text === '' ? 'The tool reported an error' : $text, 'internal_error');
    }

    public static function failure(string $id, string $name, \Throwable $thrown): ToolResult
    {
        $failure = ToolFailure::of($thrown);
        return new ToolResult($id, $name, null, false, $failure->getMessage(), $failure->errorCode, metadata: $failure->metadata);
    }
}
