<?php

declare(strict_types=1);

namespace Pillion\Laravel\Execution;

use Illuminate\Support\Str;
use Pillion\ToolCall;

/** Reads calls given by applications and models. */
final class CallReader
{
    public static function generateId(): string
    {
        return 'call_' . Str::random(24);
    }

    /**
     * Reads a call; generates an ID for a call without an ID.
     *
     * @param ToolCall|array<string, mixed> $call
     *
     * @throws \Pillion\Exception\InvalidInputException when the call is invalid
     */
    public static function read(ToolCall|array $call): ToolCall
    {
        return $call instanceof ToolCall ? $call : ToolCall::fromArray($call + ['id' => self::generateId()]);
    }

    /**
     * @param array<ToolCall|array<string, mixed>> $calls
     *
     * @return list<ToolCall>
     *
     * @throws \Pillion\Exception\InvalidInputException when a call is invalid
     */
    public static function readAll(array $calls): array
    {
        return array_map(self::read(...), array_values($calls));
    }
}
