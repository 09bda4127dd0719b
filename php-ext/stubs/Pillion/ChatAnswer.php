<?php

namespace Pillion;

/** How a chat goes: what the model has answered, or why it has not yet. */
final class ChatAnswer
{
    /** Whether the model has answered. */
    public readonly bool $success;

    /**
     * @param ?string     $text         what the model says
     * @param 'answered'|'awaiting_approval'|'failed'|'interrupted' $status `answered`; `awaiting_approval`: calls wait for somebody's decision; `failed`
     *                                  or `interrupted`: nothing is lost. {@see ToolAwareChat::send()} goes on
     * @param string      $state        what it takes to go on: of a chat in the sidecar its id, else JSON to be
     *                                  kept where users cannot change it
     * @param string      $model        the model's name
     * @param ?string     $finishReason `stop`, `length` when the text is incomplete, `content_filter`, or the provider's own word
     * @param 'tool_calls'|'tool_rounds'|null $limitReached the limit that made the model answer, if one did
     * @param list<array{id: string, name: string, arguments: array<array-key, mixed>|string, success: bool, content: string, error_code?: string}> $toolCalls the calls
     *                                  of this run, in the order in which they ended, also those that did not begin; with the
     *                                  arguments that the model sent, which are text where they are no JSON
     * @param list<array{id: ?string, call: string, tool: string, arguments: array<array-key, mixed>|string}> $approvals the calls that wait, with what they would run with
     * @param array{requests?: int, input_tokens?: int, output_tokens?: int, cached_tokens?: int} $usage what the chat has cost up to here
     * @param ?string     $error        what went wrong
     * @param ?string     $errorCode    which kind of failure it is
     * @param ?float      $retryAfter   in how many seconds to try again, where that is known
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
    }

    /**
     * What the model says.
     *
     * @throws Exception\ApprovalRequiredException when calls wait, with the first of them
     * @throws Exception\PillionException          when it has not answered; the class fits the error code
     */
    public function textOrThrow(): string
    {
    }
}
