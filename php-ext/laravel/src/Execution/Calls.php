<?php

declare(strict_types=1);

namespace Pillion\Laravel\Execution;

use Illuminate\Support\Str;
use Pillion\ToolCall;

/** Reads calls given by applications and models. */
final class Calls
{
    public static function newId(): string
    {
        return 'call_' . Str::random(24);
    }

    /**
     * Reads a call; generates an ID if it has none.
     *
     * @param ToolCall|array<string, mixed> $call
     *
     * @throws \Pillion\Exception\InvalidInputException when the call is invalid
     */
    public static function one(ToolCall|array $call): ToolCall
    {
        return $call instanceof ToolCall ? $call : ToolCall::fromArray($call + ['id' => self::newId()]);
    }

    /**
     * @param array<ToolCall|array<string, mixed>> $calls
     *
     * @return list<ToolCall>
     *
     * @throws \Pillion\Exception\InvalidInputException when a call is invalid
     */
    public static function all(array $calls): array
    {
        return array_map(self::one(...), array_values($calls));
    }
}
