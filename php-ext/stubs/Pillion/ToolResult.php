<?php

namespace Pillion;

/**
 * The one outcome of a call.
 */
class ToolResult implements \JsonSerializable
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
     * The text for the model: the result, or `Error: ` and the error. Of an MCP result that is text and
     * nothing else, that text, a block a line; of one without blocks the JSON of its structured content.
     * Any other result is JSON, unless it is text.
     *
     * @throws Exception\InvalidInputException when the result is no JSON
     */
    public function toMessage(): string
    {
    }

    /**
     * The message of role `tool`. The content is the result, as {@see toMessage()} has it; of a failure
     * whose result says no more than its error, `{"error": "..."}`.
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

    /** @return array<string, mixed> as {@see toArray()}; metadata without entries is an object all the same */
    public function jsonSerialize(): array
    {
    }

    /** Whether the call failed. */
    public function isError(): bool
    {
    }

    /**
     * What the result says: of an MCP result the blocks of text, a line each, or else the JSON of its
     * structured content; of any other result itself if it is text, else its JSON; of a failure without
     * a result the error.
     *
     * @throws Exception\InvalidInputException when the result is no JSON
     */
    public function text(): string
    {
    }

    /**
     * The content blocks of an MCP result, as the server sent them. Any other result is one block of text.
     *
     * @return list<array{type: string, ...}>
     *
     * @throws Exception\InvalidInputException when the result is no JSON
     */
    public function content(): array
    {
    }

    /**
     * The `structuredContent` of an MCP result. Of any other result `data`, or else the result if it is
     * not text.
     */
    public function structuredContent(): mixed
    {
    }

    /**
     * The images of an MCP result, also those in embedded resources.
     *
     * @return list<array{mime_type: string, data: string}> data is the image's bytes
     *
     * @throws Exception\TransportException when a block is not valid base64
     */
    public function images(): array
    {
    }

    /**
     * The result itself if it worked.
     *
     * @throws Exception\InvalidInputException      if not, by `errorCode`
     * @throws Exception\NotFoundException
     * @throws Exception\RateLimitedException       with `retry_after` of the metadata
     * @throws Exception\TimeoutException
     * @throws Exception\ApprovalRequiredException  with `approval_id` and `arguments` of the metadata
     * @throws Exception\DeniedException
     * @throws Exception\UnavailableException
     * @throws Exception\CancelledException
     * @throws Exception\PillionException           for every other code
     */
    public function throw(): static
    {
    }

    /**
     * A result that worked. A tool may leave out the ids: whoever runs it knows them.
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
     * A result that failed.
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
