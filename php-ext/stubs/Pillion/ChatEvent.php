<?php

namespace Pillion;

/**
 * An event of a chat:
 *
 *  - `delta`, `thought`: a fragment of the answer, or of the model's reasoning, in `$text`
 *  - `status`: a human-readable status line in `$text`, such as `Executing a, b...`
 *  - `tool_started`: `array{id: string, name: string, arguments: array<array-key, mixed>|string}`
 *  - `tool_finished`: `array{id: string, name: string, success: bool, content: string, error_code: ?string}`
 *  - `tool_waiting` (a call waits for approval): `array{id: ?string, call: string, tool: string, arguments: array<array-key, mixed>|string}`
 *  - `usage`: `array{request: int, input_tokens: int, output_tokens: int, total_input_tokens: int, total_output_tokens: int}`
 *  - `done` (the last event): the outcome, in `$answer`
 */
final class ChatEvent
{
    /** The text of a `delta`, `thought` or `status` event; empty for other events. */
    public readonly string $text;

    /**
     * @param 'delta'|'thought'|'status'|'tool_started'|'tool_finished'|'tool_waiting'|'usage'|'done' $type
     * @param array<string, mixed> $data the event data, in the shape that the type defines
     */
    public function __construct(
        public readonly string $type,
        public readonly array $data = [],
        public readonly ?ChatAnswer $answer = null,
    ) {
    }
}
