<?php

namespace Pillion;

/**
 * The result of a tool call.
 */
class ToolResult implements \JsonSerializable
{
    public readonly string $toolCallId;
    public readonly string $toolName;
    /** The result for the model. */
    public readonly mixed $result;
    public readonly bool $success;
    public readonly ?string $error;
    /**
     * @var ?string one of `invalid_input`, `not_found`, `rate_limited`, `timeout`, `approval_required`,
     *              `denied`, `unavailable`, `cancelled`, `internal_error`
     */
    public readonly ?string $errorCode;
    /** The data for programs, if it differs from the result. */
    public readonly mixed $data;
    /** @var array<string, mixed> information about the run; `execution_time` is in seconds */
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
     * Returns the text for the model: the result, or `Error: ` and the error. For an MCP result with only
     * text blocks, returns the text, with one line for each block; for an MCP result without blocks, the JSON
     * of its structured content. Any other result is returned as JSON, or unchanged if it is a string. Images,
     * recordings and files become markers such as `[image image/png, 8 bytes]`. If an approver changed the arguments of the call, a note with the arguments follows.
     *
     * @throws Exception\InvalidInputException when the result cannot be converted to JSON
     */
    public function toMessage(): string
    {
    }

    /**
     * Returns a message with the role `tool`. The content is the result as in {@see toMessage()}. For a
     * failure whose result contains no more than the error, the content is `{"error": "..."}`.
     *
     * @return array{role: 'tool', tool_call_id: string, content: string}
     *
     * @throws Exception\InvalidInputException when the result cannot be converted to JSON
     */
    public function toMessageFormat(): array
    {
    }

    /** @return array{tool_call_id: string, tool_name: string, result: mixed, success: bool, error: ?string, error_code: ?string, data: mixed, metadata: array<string, mixed>} */
    public function toArray(): array
    {
    }

    /** @return array<string, mixed> like {@see toArray()}, but empty metadata is an object */
    public function jsonSerialize(): array
    {
    }

    /** Returns whether the call failed. */
    public function isError(): bool
    {
    }

    /**
     * Returns the result as text: for an MCP result the text blocks, one per line, or the JSON of its
     * structured content; for any other result the result itself if it is a string, otherwise its JSON; for a
     * failure without a result the error.
     *
     * @throws Exception\InvalidInputException when the result cannot be converted to JSON
     */
    public function text(): string
    {
    }

    /**
     * Returns the content blocks of an MCP result, as the server sent them. Any other result becomes one text
     * block.
     *
     * @return list<array{type: string, ...}>
     *
     * @throws Exception\InvalidInputException when the result cannot be converted to JSON
     */
    public function content(): array
    {
    }

    /**
     * Returns the `structuredContent` of an MCP result. For any other result returns `data`, or the result if
     * it is not a string.
     */
    public function structuredContent(): mixed
    {
    }

    /**
     * Returns the images of an MCP result, including images in embedded resources.
     *
     * @return list<array{mime_type: string, data: string}> `data` contains the decoded bytes
     *
     * @throws Exception\TransportException when a block is not valid base64
     */
    public function images(): array
    {
    }

    /**
     * Returns this result if the call succeeded; otherwise throws an exception.
     *
     * @throws Exception\InvalidInputException      the exception class depends on `errorCode`
     * @throws Exception\NotFoundException
     * @throws Exception\RateLimitedException       with `retry_after` from the metadata
     * @throws Exception\TimeoutException
     * @throws Exception\ApprovalRequiredException  with `approval_id` and `arguments` from the metadata
     * @throws Exception\DeniedException
     * @throws Exception\UnavailableException
     * @throws Exception\CancelledException
     * @throws Exception\PillionException           for every other code
     */
    public function throw(): static
    {
    }

    /**
     * Creates a successful result. A tool may omit the call ID and the name; the executor fills them in.
     *
     * @param array<string, mixed> $metadata
     */
    public static function success(
        mixed $result,
        string $toolCallId = '',
        string $toolName = '',
        mixed $data = null,
        array $metadata = [],
    ): static {
    }

    /**
     * Creates a failed result.
     *
     * @param array<string, mixed> $metadata
     */
    public static function failure(
        string $error,
        string $errorCode = 'internal_error',
        string $toolCallId = '',
        string $toolName = '',
        mixed $result = null,
        array $metadata = [],
    ): static {
    }
}
