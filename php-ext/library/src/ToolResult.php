<?php

declare(strict_types=1);

namespace Pillion;

use Pillion\Fallback\Argument;
use Pillion\Fallback\Failure;
use Pillion\Fallback\Json;
use Pillion\Fallback\ModelContent;
use Pillion\Fallback\ResultContent;

/**
 * The result of a tool call.
 */
class ToolResult implements \JsonSerializable
{
    /**
     * @param mixed                $result    the result for the model
     * @param ?string              $errorCode one of `invalid_input`, `not_found`, `rate_limited`, `timeout`,
     *                                        `approval_required`, `denied`, `unavailable`, `cancelled`, `internal_error`
     * @param mixed                $data      the data for programs, if it differs from the result
     * @param array<string, mixed> $metadata  information about the run; `execution_time` is in seconds
     */
    public function __construct(
        public readonly string $toolCallId,
        public readonly string $toolName,
        public readonly mixed $result,
        public readonly bool $success = true,
        public readonly ?string $error = null,
        public readonly ?string $errorCode = null,
        public readonly mixed $data = null,
        public readonly array $metadata = [],
    ) {
        Argument::checkTexts([1 => $toolCallId, 2 => $toolName, 5 => $error, 6 => $errorCode]);
    }

    /**
     * Returns the text for the model.
     *
     *  - A failed call: `Error: ` and the error message.
     *  - An MCP result with content blocks: the text of the blocks, one line for each block.
     *  - An MCP result without content blocks: the JSON of the structured content.
     *  - Any other result: the result itself if it is a string, otherwise its JSON.
     *
     * Images, recordings and files become markers such as `[image image/png, 8 bytes]`. If an
     * approver changed the arguments of the call, a note with the arguments follows.
     *
     * @throws Exception\InvalidInputException when the result cannot be converted to JSON
     */
    public function toMessage(): string
    {
        $content = ModelContent::fromResult($this);
        return $this->withApprovalNote($this->success ? $content->text() : 'Error: ' . ($this->error ?? 'unknown error'));
    }

    /** Adds a note with the arguments with which the call ran, if an approver changed them. */
    private function withApprovalNote(string $text): string
    {
        $arguments = $this->metadata['approved_arguments'] ?? null;
        if (!is_array($arguments) && !$arguments instanceof \stdClass) {
            return $text;
        }
        $json = Json::encode((object) $arguments);
        return "$text\n\nNote: the person who approved this call changed its arguments. The call ran with: $json";
    }

    /**
     * Returns a message with the role `tool`. The content is the result as in {@see toMessage()}.
     * For a failed call without a result besides the error message, the content is `{"error":
     * "..."}`.
     *
     * @return array{role: 'tool', tool_call_id: string, content: string}
     *
     * @throws Exception\InvalidInputException when the result cannot be converted to JSON
     */
    public function toMessageFormat(): array
    {
        $content = ModelContent::fromResult($this);
        $text = $content->isEmptyFailure() ? Json::encode(['error' => $this->error ?? 'unknown error']) : $content->text();
        return ['role' => 'tool', 'tool_call_id' => $this->toolCallId, 'content' => $this->withApprovalNote($text)];
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

    /** @return array<string, mixed> like {@see toArray()}, but empty metadata is an object */
    public function jsonSerialize(): array
    {
        $metadata = $this->metadata === [] ? new \stdClass() : $this->metadata;
        return array_replace($this->toArray(), ['metadata' => $metadata]);
    }

    /** Returns whether the call failed. */
    public function isError(): bool
    {
        return !$this->success;
    }

    /**
     * Returns the result as text. For an MCP result, returns the text blocks, one per line, or the
     * JSON of its structured content. For any other result, returns the result itself if it is a
     * string, otherwise its JSON. For a failure without a result, returns the error message.
     *
     * @throws Exception\InvalidInputException when the result cannot be converted to JSON
     */
    public function text(): string
    {
        return ResultContent::fromResult($this)->text();
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
        return ResultContent::fromResult($this)->blocks();
    }

    /**
     * Returns the `structuredContent` of an MCP result. For any other result returns `data`, or the result if
     * it is not a string.
     */
    public function structuredContent(): mixed
    {
        return ResultContent::fromResult($this)->structuredContent();
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
        return ResultContent::fromResult($this)->images();
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
        return $this->success ? $this : throw Failure::forResult($this);
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
        return self::create(static::class, [$toolCallId, $toolName, $result, true, null, null, $data, $metadata]);
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
        return self::create(static::class, [$toolCallId, $toolName, $result, false, $error, $errorCode, null, $metadata]);
    }

    /**
     * Creates an instance of the called class without calling the constructor of a subclass.
     *
     * @param class-string<static> $class
     * @param list<mixed>          $arguments of the constructor of ToolResult
     */
    private static function create(string $class, array $arguments): static
    {
        $instance = (new \ReflectionClass($class))->newInstanceWithoutConstructor();
        (new \ReflectionMethod(self::class, '__construct'))->invokeArgs($instance, $arguments);
        return $instance;
    }
}
