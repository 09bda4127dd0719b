<?php

declare(strict_types=1);

namespace Pillion;

use Pillion\Fallback\Argument;
use Pillion\Fallback\Json;

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
        Argument::texts([1 => $toolCallId, 2 => $toolName, 5 => $error, 6 => $errorCode]);
        $this->toolCallId = $toolCallId;
        $this->toolName = $toolName;
        $this->result = $result;
        $this->success = $success;
        $this->error = $error;
        $this->errorCode = $errorCode;
        $this->data = $data;
        $this->metadata = $metadata;
    }

    /**
     * The text for the model: the result, or `Error: ` and the error.
     *
     * @throws Exception\InvalidInputException when the result is no JSON
     */
    public function toMessage(): string
    {
        $text = Json::text($this->result);
        return $this->success ? $text : 'Error: ' . ($this->error ?? 'unknown error');
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
        $nothing = !$this->success && $this->result === null;
        $content = $nothing ? Json::encode(['error' => $this->error ?? 'unknown error']) : Json::text($this->result);
        return ['role' => 'tool', 'tool_call_id' => $this->toolCallId, 'content' => $content];
    }

    /** @return array{tool_call_id: string, tool_name: string, result: mixed, success: bool, error: ?string, error_code: ?string, data: mixed, metadata: array<string, mixed>} */
    public function toArray(): array
    {
        return [
            'tool_call_id' => $this->toolCallId,
            'tool_name' => $this->toolName,
            'result' => $this->result,
            'success' => $this->success,
            'error' => $this->error,
            'error_code' => $this->errorCode,
            'data' => $this->data,
            'metadata' => $this->metadata,
        ];
    }
}
