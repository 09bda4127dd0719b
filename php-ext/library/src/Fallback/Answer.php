<?php

declare(strict_types=1);

namespace Pillion\Fallback;

use Pillion\ToolResult;

/**
 * The sidecar's response to one call: the outcome of a tool under `result`, or an error because the tool does
 * not exist.
 *
 * @internal
 */
final class Answer
{
    /**
     * @param mixed                $data     the tool's data, or its result if there is no data; a tree
     * @param array<string, mixed> $metadata
     */
    private function __construct(
        public readonly bool $success,
        public readonly mixed $data,
        public readonly ?string $error,
        public readonly ?string $errorCode,
        /** Whether the response has a `result` in addition to the data. */
        private readonly bool $hasResult,
        private readonly mixed $result,
        private readonly array $metadata,
    ) {
    }

    /**
     * @param mixed $answer a tree
     *
     * @throws \Pillion\Exception\TransportException when the response is invalid
     */
    public static function of(mixed $answer): self
    {
        $outcome = $answer instanceof \stdClass && ($answer->result ?? null) instanceof \stdClass ? $answer->result : $answer;
        if (!$outcome instanceof \stdClass || !is_bool($outcome->success ?? null)) {
            throw Failure::transport("The sidecar's response does not say whether the call worked");
        }
        $text = static fn (string $key): ?string => is_string($outcome->$key ?? null) ? $outcome->$key : null;
        $metadata = Json::arrays($outcome->metadata ?? null);
        if ($text('error_code') === 'approval_required' && ($outcome->metadata->arguments ?? null) instanceof \stdClass) {
            // The approver needs to see the arguments that the tool would receive.
            $metadata['arguments'] = Json::members($outcome->metadata->arguments);
        }
        return new self(
            $outcome->success,
            $outcome->data ?? null,
            $text('error'),
            $text('error_code'),
            property_exists($outcome, 'result'),
            $outcome->result ?? null,
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
            return Json::arrays($this->data);
        }
        throw $this->failure($toolName);
    }

    public function failure(string $toolName): \Pillion\Exception\PillionException
    {
        $code = Failure::code($this->errorCode) ?? 'internal_error';
        return Failure::ofResult(new ToolResult('', $toolName, null, false, $this->error ?? 'The tool failed', $code, null, $this->metadata));
    }

    public function toResult(string $toolCallId, string $toolName): ToolResult
    {
        return new ToolResult(
            $toolCallId,
            $toolName,
            Json::arrays($this->hasResult ? $this->result : $this->data),
            $this->success,
            $this->error,
            $this->errorCode,
            $this->hasResult ? Json::arrays($this->data) : null,
            $this->metadata,
        );
    }
}
