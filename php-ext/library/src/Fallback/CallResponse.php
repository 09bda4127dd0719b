<?php

declare(strict_types=1);

namespace Pillion\Fallback;

use Pillion\ToolResult;

/**
 * The sidecar's response to one call: the tool's outcome under `result`, or an error if the tool
 * does not exist.
 *
 * @internal
 */
final class CallResponse
{
    /**
     * @param mixed                $data     the tool's data for programs, or the tool's result for the model if
     *                                       there is no data; a JSON tree
     * @param array<string, mixed> $metadata
     */
    private function __construct(
        public readonly bool $success,
        public readonly mixed $data,
        public readonly ?string $error,
        public readonly ?string $errorCode,
        /** Whether the response contains a result for the model in addition to the data for programs. */
        private readonly bool $hasResult,
        private readonly mixed $result,
        private readonly array $metadata,
    ) {
    }

    /**
     * @param mixed $response a JSON tree
     *
     * @throws \Pillion\Exception\TransportException when the response is invalid
     */
    public static function parse(mixed $response): self
    {
        $body = $response instanceof \stdClass && ($response->result ?? null) instanceof \stdClass ? $response->result : $response;
        if (!$body instanceof \stdClass || !is_bool($body->success ?? null)) {
            throw Failure::transport("The sidecar's response has no boolean 'success'");
        }
        $readText = static fn (string $key): ?string => is_string($body->$key ?? null) ? $body->$key : null;
        $metadata = Json::toArrays($body->metadata ?? null);
        if ($readText('error_code') === 'approval_required' && ($body->metadata->arguments ?? null) instanceof \stdClass) {
            // The metadata contains the exact arguments, because the approver needs to see the
            // arguments that the tool would receive.
            $metadata['arguments'] = Json::toMemberArrays($body->metadata->arguments);
        }
        return new self(
            $body->success,
            $body->data ?? null,
            $readText('error'),
            $readText('error_code'),
            property_exists($body, 'result'),
            $body->result ?? null,
            is_array($metadata) ? $metadata : [],
        );
    }

    /**
     * Returns the tool's data.
     *
     * @throws \Pillion\Exception\PillionException when the tool failed; the error code determines the class
     */
    public function dataOrThrow(string $toolName): mixed
    {
        if ($this->success) {
            return Json::toArrays($this->data);
        }
        throw $this->toException($toolName);
    }

    public function toException(string $toolName): \Pillion\Exception\PillionException
    {
        $errorCode = Failure::toKnownCode($this->errorCode);
        return Failure::forResult(new ToolResult('', $toolName, null, false, $this->error ?? 'The tool failed', $errorCode, null, $this->metadata));
    }

    public function toResult(string $toolCallId, string $toolName): ToolResult
    {
        return new ToolResult(
            $toolCallId,
            $toolName,
            Json::toArrays($this->hasResult ? $this->result : $this->data),
            $this->success,
            $this->error,
            $this->errorCode,
            $this->hasResult ? Json::toArrays($this->data) : null,
            $this->metadata,
        );
    }
}
