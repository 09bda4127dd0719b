<?php

namespace Pillion;

/**
 * The one outcome of a call.
 */
class ToolResult
{
    public readonly string $toolCallId;
    public readonly string $toolName;
    /** What the model reads. */
    public readonly mixed $result;
    public readonly bool $success;
    public readonly ?string $error;
    /**
     * @var ?string one of `invalid_input`, `not_found`, `rate_limited`, `timeout`, `approval_required`,
     *              `denied`, `unavailable`, `cancelled`, `internal_error`
     */
    public readonly ?string $errorCode;
    /** What programs read, where it differs from the result. */
    public readonly mixed $data;
    /** @var array<string, mixed> facts about the run; `execution_time` is in seconds */
    public readonly array $metadata;

    /** @param array<string, mixed> $metadata */
    public function __construct(
        string $toolCallId,
        string $toolName,
        mixed $result,
        bool $success = true,
        ?string $error = null,
        ?string $errorCode = null,
        mixed $data = null,
        array $metadata = [],
    ) {
    }

    /**
     * The text for the model: the result, or `Error: ` and the error.
     *
     * @throws Exception\InvalidInputException when the result is no JSON
     */
    public function toMessage(): string
    {
    }

    /**
     * The message of role `tool`. The content is the result if it is text, else its JSON.
     *
     * @return array{role: 'tool', tool_call_id: string, content: string}
     *
     * @throws Exception\InvalidInputException when the result is no JSON
     */
    public function toMessageFormat(): array
    {
    }

    /** @return array{tool_call_id: string, tool_name: string, result: mixed, success: bool, error: ?string, error_code: ?string, data: mixed, metadata: array<string, mixed>} */
    public function toArray(): array
    {
    }
}
