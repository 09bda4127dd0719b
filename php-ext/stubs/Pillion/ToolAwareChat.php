<?php

namespace Pillion;

/**
 * A language model that calls tools until it has a final answer. The tool loop runs in this process, with the
 * tools of a `ToolExecutor`, or in the sidecar. If the executor's class extends `ToolExecutor`, the loop runs
 * calls with its `executeParallel()` method.
 */
class ToolAwareChat
{
    private object $tools;

    /**
     * Creates a chat without any I/O.
     *
     * @param array{provider?: string, api?: string, base_url?: string, model?: string, id?: string, api_key?: string|callable(): string, headers?: array<string, string>, context_tokens?: int, reasoning?: bool, max_retries?: int, tools?: array{function_calling?: bool, mcp?: bool, enabled_tools?: list<string>}, ...}|string|null $model with an executor:
     *                     the endpoint of the model and the tools that the model may see (none without
     *                     `function_calling`); with a sidecar: the name of a model, or null for the default
     * @param array{system?: string, enable_tools?: bool, temperature?: float, max_output_tokens?: int, timeout?: int|float, top_p?: float, stop?: list<string>, extra?: array<string, mixed>, max_tool_calls?: int, max_tool_rounds?: int, max_calls_per_answer?: int, max_total_tokens?: int} $options
     *                     `timeout` is the timeout of one run in seconds (default 300); the options from
     *                     `top_p` on apply only to the loop in this process: the sidecar has its own
     *
     * @throws Exception\InvalidInputException when the model or an option is invalid
     * @throws Exception\UnavailableException  when the loop would run in this process without the extension
     */
    public function __construct(
        ToolExecutor|Sidecar $tools,
        #[\SensitiveParameter] array|string|null $model = null,
        array $options = [],
    ) {
    }

    /**
     * Runs the chat until the model has answered, calls wait for approval, or a failure occurs. The status of
     * the answer shows the outcome.
     *
     * @param string|list<array<string, mixed>>|null $message the user's message, or messages in the format of
     *                                  OpenAI's chat completions; null resumes a chat whose calls have been decided, or
     *                                  that failed
     * @param ?string $state            the state of a previous answer; resumes its chat
     * @param array{user?: string, channel?: string, request_id?: string, approved?: list<string>|array<string, array<string, mixed>>, denied?: list<string>, approval_wait?: int|float, ...} $context the
     *                                  user for whom tools run; `approved` and `denied` decide on calls that wait
     *                                  in this process; `approval_wait`: seconds to wait for decisions at the sidecar
     *
     * @throws Exception\InvalidInputException when messages, the state or the context are invalid
     * @throws Exception\NotFoundException     when the sidecar has no such model or chat
     * @throws Exception\UnavailableException  when the sidecar is not available
     * @throws Exception\TimeoutException      when the sidecar does not answer in time
     * @throws Exception\PillionException
     */
    public function send(string|array|null $message = null, ?string $state = null, array $context = []): ChatAnswer
    {
    }

    /**
     * Runs the chat like {@see send()} and returns a stream of its events.
     *
     * @param string|list<array<string, mixed>>|null $message
     * @param array{user?: string, channel?: string, request_id?: string, approved?: list<string>|array<string, array<string, mixed>>, denied?: list<string>, approval_wait?: int|float, ...} $context
     *
     * @throws Exception\PillionException as {@see send()}
     */
    public function stream(string|array|null $message = null, ?string $state = null, array $context = []): ChatStream
    {
    }
}
