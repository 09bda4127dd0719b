<?php

declare(strict_types=1);

namespace Pillion\Fallback\Executor;

use Pillion\Exception\InvalidInputException;
use Pillion\Fallback\Failure;
use Pillion\Fallback\Json;

/**
 * The options of an executor. The callables stay in this process; the sidecar reads and validates the other
 * options.
 *
 * @internal
 */
final class ExecutorOptions
{
    /** The sidecar's default timeout of a call, in seconds. */
    private const DEFAULT_TIMEOUT = 30.0;

    public readonly ?\Closure $approve;
    public readonly ?\Closure $before;
    /** The options without the callables, as JSON. */
    public readonly string $json;
    /** Whether all options except the callables have their defaults. */
    public readonly bool $areDefaults;

    /**
     * @param array<string, mixed> $options
     *
     * @throws InvalidInputException when a callable is not callable, another option is null, or the options cannot be converted to JSON
     */
    public function __construct(private readonly array $options)
    {
        $plainOptions = array_diff_key($options, ['approve' => null, 'before' => null]);
        foreach (array_keys($plainOptions, null, true) as $name) {
            throw Failure::invalidInput("Invalid executor option '$name': it must not be null");
        }
        $this->json = Json::encodeArguments($plainOptions, 'argument $options');
        $this->areDefaults = $plainOptions === [];
        $this->approve = self::readCallable('approve', $options);
        $this->before = self::readCallable('before', $options);
    }

    /** Returns the longest timeout of a call, in seconds. */
    public function findMaxTimeout(): float
    {
        $toolTimeouts = $this->options['tool_timeouts'] ?? [];
        $timeouts = [$this->options['timeout'] ?? self::DEFAULT_TIMEOUT, ...(is_array($toolTimeouts) ? array_values($toolTimeouts) : [])];
        // Timeouts that are not numbers are ignored here, because the sidecar rejects them.
        $numericTimeouts = array_filter($timeouts, static fn (mixed $timeout): bool => is_int($timeout) || is_float($timeout));
        return $numericTimeouts === [] ? self::DEFAULT_TIMEOUT : (float) max($numericTimeouts);
    }

    /** @param array<string, mixed> $options */
    private static function readCallable(string $name, array $options): ?\Closure
    {
        $callable = $options[$name] ?? null;
        if ($callable !== null && !is_callable($callable)) {
            $type = get_debug_type($callable);
            throw Failure::invalidInput("Invalid executor option '$name': it must be callable or null, $type given");
        }
        return $callable === null ? null : \Closure::fromCallable($callable);
    }
}
