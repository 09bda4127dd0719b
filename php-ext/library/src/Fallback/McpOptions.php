<?php

declare(strict_types=1);

namespace Pillion\Fallback;

use Pillion\CancellationToken;
use Pillion\Fallback\Executor\ToolFailure;
use Pillion\ToolResult;

/**
 * The options of a call that an McpClient makes, and the conversion of the call's outcome.
 *
 * @internal
 */
final class McpOptions
{
    private const OPTION_NAMES = ['timeout', 'on_progress', 'cancellation', 'meta', 'id', 'max_concurrent'];

    public readonly ?float $timeout;
    public readonly ?CancellationToken $cancellation;
    public readonly string $id;

    /**
     * @param array<array-key, mixed> $options
     *
     * @throws \Pillion\Exception\InvalidInputException naming the option
     * @throws \Pillion\Exception\UnavailableException  for an option that the sidecar does not forward
     */
    public function __construct(array $options)
    {
        foreach (array_keys($options) as $name) {
            if (!in_array($name, self::OPTION_NAMES, true)) {
                $knownNames = implode(', ', self::OPTION_NAMES);
                throw Failure::invalidInput("Unknown option '$name', expected one of $knownNames");
            }
        }
        $setOptions = array_filter($options, static fn (mixed $value): bool => $value !== null);
        $requirements = [
            'timeout' => [static fn (mixed $value): bool => is_int($value) || is_float($value), 'a number of seconds'],
            'on_progress' => [is_callable(...), 'callable'],
            'cancellation' => [static fn (mixed $value): bool => $value instanceof CancellationToken, 'a Pillion\CancellationToken'],
            'meta' => [is_array(...), 'an array'],
            'id' => [is_string(...), 'a string'],
            'max_concurrent' => [static fn (mixed $value): bool => is_int($value) && $value > 0, 'a positive integer'],
        ];
        foreach ($setOptions as $name => $value) {
            [$accepts, $expectedType] = $requirements[$name];
            if (!$accepts($value)) {
                throw Failure::invalidInput("The option '$name' must be $expectedType, " . get_debug_type($value) . ' given');
            }
        }
        if (($setOptions['meta'] ?? []) !== []) {
            throw Failure::unavailable("The sidecar does not forward the option 'meta': install the extension ext-pillion");
        }
        $this->timeout = isset($setOptions['timeout']) ? Argument::checkSeconds('timeout', $setOptions['timeout']) : null;
        $this->cancellation = $setOptions['cancellation'] ?? null;
        $this->id = $setOptions['id'] ?? '';
    }

    /** @param mixed $tree the server's result; `isError` marks a failed result */
    public static function toResult(string $id, string $name, mixed $tree): ToolResult
    {
        $isFailed = $tree instanceof \stdClass && ($tree->isError ?? false) === true;
        $result = Json::toLosslessArrays($tree);
        if (!$isFailed) {
            return new ToolResult($id, $name, $result);
        }
        $text = (new ToolResult($id, $name, Json::toArrays($tree)))->text();
        return new ToolResult($id, $name, $result, false, $text === '' ? 'The tool reported an error' : $text, 'internal_error');
    }

    public static function toFailedResult(string $id, string $name, \Throwable $exception): ToolResult
    {
        $failure = ToolFailure::fromThrowable($exception);
        return new ToolResult($id, $name, null, false, $failure->getMessage(), $failure->errorCode, metadata: $failure->metadata);
    }
}
