<?php

namespace Pillion;

/**
 * A language model that uses tools until it answers in words. The loop runs in this process, with
 * the tools of a `ToolExecutor`, or in the sidecar. Of a class that extends `ToolExecutor` the method
 * `executeParallel()` runs the calls.
 */
class ToolAwareChat
{
    private object $tools;

    /**
     * Does no I/O.
     *
     * @param array{provider?: string, api?: string, base_url?: string, model?: string, id?: string, api_key?: string|callable(): string, headers?: array<string, string>, context_tokens?: int, reasoning?: bool, max_retries?: int, tools?: array{function_calling?: bool, mcp?: bool, enabled_tools?: list<string>}, ...}|string|null $model with an executor where
     *                     the model is, and which tools it may see: none without `function_calling`; with
     *                     a sidecar the name of one of its models, or null for the default one
     * @param array{system?: string, enable_tools?: bool, temperature?: float, max_output_tokens?: int, timeout?: int|float, top_p?: float, stop?: list<string>, extra?: array<string, mixed>, max_tool_calls?: int, max_tool_rounds?: int, max_calls_per_answer?: int, max_total_tokens?: int} $options
     *                     `timeout` is that of one run in seconds, 300 unless set; what comes after it is for
     *                     the loop in this process, the sidecar's is configured there
     *
     * @throws Exception\InvalidInputException when the model or an option makes no sense
     * @throws Exception\UnavailableException  for a loop in this process without the extension
     */
    public function __construct(
        ToolExecutor|Sidecar $tools,
        #[\SensitiveParameter] array|string|null $model = null,
        array $options = [],
    ) {
    }

    /**
     * Goes on until the model has answered, calls wait for an approval, or something fails: the
     * answer says which.
     *
     * @param string|list<array<string, mixed>>|null $message what the user says, or messages in the shapes of
     *                                  OpenAI's chat completions; null goes on with a chat whose calls are
     *                                  decided, or that failed
     * @param ?string $state            that of a former answer, to go on with its chat
     * @param array{user?: string, channel?: string, request_id?: string, approved?: list<string>, denied?: list<string>, approval_wait?: int|float, ...} $context on
     *                                  whose behalf tools run; `approved` and `denied` decide on calls that waited in this
     *                                  process, `approval_wait` waits so many seconds for decisions at the sidecar
     *
     * @throws Exception\InvalidInputException when messages, the state or the context cannot be read
     * @throws Exception\NotFoundException     when the sidecar has no such model or chat
     * @throws Exception\UnavailableException  when there is no sidecar
     * @throws Exception\TimeoutException      when the sidecar has not answered in time
     * @throws Exception\PillionException
     */
    public function send(string|array|null $message = null, ?string $state = null, array $context = []): ChatAnswer
    {
    }

    /**
     * As {@see send()}, with what happens as it comes.
     *
     * @param string|list<array<string, mixed>>|null $message
     * @param array{user?: string, channel?: string, request_id?: string, approved?: list<string>, denied?: list<string>, approval_wait?: int|float, ...} $context
     *
     * @throws Exception\PillionException as {@see send()}
     */
    public function stream(string|array|null $message = null, ?string $state = null, array $context = []): ChatStream
    {
    }
}
