<?php

declare(strict_types=1);

namespace Pillion\Laravel\Execution;

use Illuminate\Support\Str;
use Pillion\ToolCall;

/** Calls as applications and models give them. */
final class Calls
{
    public static function newId(): string
    {
        return 'call_' . Str::random(24);
    }

    /**
     * One without an id is given one.
     *
     * @param ToolCall|array<string, mixed> $call
     *
     * @throws \Pillion\Exception\InvalidInputException when it is none
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
     * @throws \Pillion\Exception\InvalidInputException when one is none
     */
    public static function all(array $calls): array
    {
        return array_map(self::one(...), array_values($calls));
    }
}
