<?php

declare(strict_types=1);

namespace Pillion\Fallback;

use Pillion\ToolCall;

/**
 * Reads calls given as objects or arrays.
 *
 * @internal
 */
final class CallParser
{
    /** @throws \Pillion\Exception\InvalidInputException */
    public static function parse(mixed $call): ToolCall
    {
        $parsedCall = self::parseUnchecked($call);
        // An exception from `encode()` is thrown to the caller, because arguments that cannot be
        // converted to JSON are the caller's error and not a tool's.
        Json::encode($parsedCall->arguments, 'argument $arguments');
        return $parsedCall;
    }

    /**
     * Reads a call like {@see parse()}, but accepts arguments that cannot be converted to JSON, so
     * that the other calls of a batch can run.
     *
     * @throws \Pillion\Exception\InvalidInputException
     */
    public static function parseUnchecked(mixed $call): ToolCall
    {
        return match (true) {
            $call instanceof ToolCall => $call,
            is_array($call) => ToolCall::fromArray($call),
            default => throw Failure::invalidInput('A call must be a Pillion\ToolCall or an array'),
        };
    }

    /**
     * @param array<array-key, mixed> $calls
     *
     * @return list<ToolCall>
     *
     * @throws \Pillion\Exception\InvalidInputException
     */
    public static function parseAll(array $calls): array
    {
        return array_map(self::parse(...), array_values($calls));
    }

    /**
     * Reads calls whose IDs are optional; a call without an ID gets an empty ID.
     *
     * @param array<array-key, mixed> $calls
     *
     * @return list<ToolCall>
     *
     * @throws \Pillion\Exception\InvalidInputException
     */
    public static function parseAllWithOptionalIds(array $calls): array
    {
        return array_map(
            static fn (mixed $call): ToolCall => self::parse(is_array($call) ? $call + ['id' => ''] : $call),
            array_values($calls),
        );
    }

    /**
     * Returns the tool's name and the arguments from the parameters of `tools/call`.
     *
     * @param array<array-key, mixed> $params
     *
     * @return array{string, array<array-key, mixed>}
     *
     * @throws \Pillion\Exception\InvalidInputException
     */
    public static function parseParameters(array $params): array
    {
        Json::encode($params);
        $givenArguments = $params['arguments'] ?? [];
        $arguments = $givenArguments instanceof \stdClass ? (array) $givenArguments : $givenArguments;
        if (!is_string($params['name'] ?? null) || !is_array($arguments)) {
            throw Failure::invalidInput("The parameters of tools/call must be a string 'name' and an array 'arguments'");
        }
        return [$params['name'], $arguments];
    }
}
