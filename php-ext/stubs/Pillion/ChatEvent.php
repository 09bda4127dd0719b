<?php

namespace Pillion;

/**
 * What happens in a chat:
 *
 *  - `delta`, `thought`: a piece of the answer, or of what the model shows of its thinking, in `$text`
 *  - `status`: a line for people in `$text`, such as `Executing a, b...`
 *  - `tool_started`: `array{id: string, name: string, arguments: array<array-key, mixed>|string}`
 *  - `tool_finished`: `array{id: string, name: string, success: bool, content: string, error_code: ?string}`
 *  - `tool_waiting`, for somebody's approval: `array{id: ?string, call: string, tool: string, arguments: array<array-key, mixed>|string}`
 *  - `usage`: `array{request: int, input_tokens: int, output_tokens: int, total_input_tokens: int, total_output_tokens: int}`
 *  - `done`, the last one: the `$answer`
 */
final class ChatEvent
{
    /** The text of `delta`, `thought` and `status`; else empty. */
    public readonly string $text;

    /**
     * @param 'delta'|'thought'|'status'|'tool_started'|'tool_finished'|'tool_waiting'|'usage'|'done' $type
     * @param array<string, mixed> $data what there is to say, in the shape that fits the type
     */
    public function __construct(
        public readonly string $type,
        public readonly array $data = [],
        public readonly ?ChatAnswer $answer = null,
    ) {
    }
}
