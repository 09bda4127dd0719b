<?php

declare(strict_types=1);

namespace Pillion;

use Pillion\Fallback\Failure;

/** The outcome of a chat run: the model's answer, or the reason why the model has not answered yet. */
final class ChatAnswer
{
    /** Whether the model has answered. */
    public readonly bool $success;

    /**
     * @param ?string     $text         the text of the answer
     * @param 'answered'|'awaiting_approval'|'failed'|'interrupted' $status `answered`; `awaiting_approval`: calls wait for approval; `failed`
     *                                  or `interrupted`: {@see ToolAwareChat::send()} can resume the chat
     * @param string      $state        resumes the chat: the chat ID for a chat in the sidecar, otherwise
     *                                  JSON that users must not be able to change
     * @param string      $model        the model's name
     * @param ?string     $finishReason `stop`, `length` when the text is incomplete, `content_filter`, or the provider's own reason
     * @param 'tool_calls'|'tool_rounds'|null $limitReached the limit that stopped further tool calls; null if no limit was reached
     * @param list<array{id: string, name: string, arguments: array<array-key, mixed>|string, success: bool, content: string, error_code?: string}> $toolCalls the tool
     *                                  calls of this run in the order of completion, including calls that never
     *                                  started; `arguments` are as the model sent them, a string if not valid JSON
     * @param list<array{id: ?string, call: string, tool: string, arguments: array<array-key, mixed>|string}> $approvals the calls that wait for approval, with their arguments
     * @param array{requests?: int, input_tokens?: int, output_tokens?: int, cached_tokens?: int} $usage total usage of the chat so far
     * @param ?string     $error        the error message
     * @param ?string     $errorCode    the kind of failure
     * @param ?float      $retryAfter   seconds to wait before a retry, if known
     */
    public function __construct(
        public readonly ?string $text = null,
        public readonly string $status = 'answered',
        public readonly string $state = '',
        public readonly string $model = '',
        public readonly ?string $finishReason = null,
        public readonly ?string $limitReached = null,
        public readonly array $toolCalls = [],
        public readonly array $approvals = [],
        public readonly array $usage = [],
        public readonly ?string $error = null,
        public readonly ?string $errorCode = null,
        public readonly ?float $retryAfter = null,
    ) {
        $this->success = $status === 'answered';
    }

    /**
     * Returns the text of the answer.
     *
     * @throws Exception\ApprovalRequiredException when calls wait for approval; describes the first of these calls
     * @throws Exception\PillionException          when the model has not answered; the error code determines the class
     */
    public function textOrThrow(): string
    {
        if ($this->success && $this->text !== null) {
            return $this->text;
        }
        $approval = $this->status === 'awaiting_approval' ? $this->approvals[0] ?? null : null;
        throw Failure::forResult($approval === null
            ? new ToolResult('', '', null, false, $this->error ?? 'The model has not answered', $this->errorCode ?? 'internal_error', null, ['retry_after' => $this->retryAfter])
            : new ToolResult('', $approval['tool'], null, false, "Tool '{$approval['tool']}' needs approval", 'approval_required', null, [
                'approval_id' => $approval['id'] ?? null,
                'arguments' => $approval['arguments'] ?? [],
            ]));
    }
}
