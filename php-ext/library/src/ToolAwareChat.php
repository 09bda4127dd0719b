<?php

declare(strict_types=1);

namespace Pillion;

use Pillion\Fallback\Argument;
use Pillion\Fallback\Chat\ChatOptions;
use Pillion\Fallback\Chat\ChatResponse;
use Pillion\Fallback\Context;
use Pillion\Fallback\Failure;
use Pillion\Fallback\Http\EventSource;
use Pillion\Fallback\Json;
use Pillion\Fallback\SidecarApi;

/**
 * A language model that calls tools until it has a final answer. The tool loop runs in the sidecar
 * or, with the extension, in this process with the tools of a `ToolExecutor`. If the executor is an
 * instance of a subclass, the loop runs calls with the subclass's `executeParallel()`.
 */
class ToolAwareChat
{
    private readonly SidecarApi $api;
    private readonly ChatOptions $options;
    private readonly ?string $model;

    /**
     * Creates a chat without any I/O.
     *
     * @param array{provider?: string, api?: string, base_url?: string, model?: string, id?: string, api_key?: string|callable(): string, headers?: array<string, string>, context_tokens?: int, reasoning?: bool, max_retries?: int, tools?: array{function_calling?: bool, mcp?: bool, enabled_tools?: list<string>}, ...}|string|null $model with an executor:
     *                     the endpoint of the model and the tools that the model may see (none without
     *                     `function_calling`); with a sidecar: the name of a model, or null for the default
     * @param array{system?: string, enable_tools?: bool, temperature?: float, max_output_tokens?:
     *                     int, timeout?: int|float, top_p?: float, stop?: list<string>, extra?:
     *                     array<string, mixed>, max_tool_calls?: int, max_tool_rounds?: int,
     *                     max_calls_per_answer?: int, max_total_tokens?: int} $options `timeout` is
     *                     the timeout of one run in seconds (default 300); the options from `top_p`
     *                     on apply only to a tool loop in this process, because the sidecar's
     *                     configuration sets them for its chats
     *
     * @throws Exception\InvalidInputException when the model or an option is invalid
     * @throws Exception\UnavailableException  when the loop would run in this process without the extension
     */
    public function __construct(
        ToolExecutor|Sidecar $tools,
        #[\SensitiveParameter] array|string|null $model = null,
        array $options = [],
    ) {
        if ($tools instanceof ToolExecutor) {
            throw Failure::unavailable('A chat with the tools of this process requires the extension pillion: install it, or run the chat in the sidecar: new ToolAwareChat(new Sidecar())');
        }
        $this->options = new ChatOptions($options);
        if (is_array($model)) {
            throw Failure::invalidInput('$model must be the name of a model of the sidecar, or null for the default model');
        }
        Argument::checkTexts([2 => $model]);
        $this->model = $model;
        $this->api = new SidecarApi($tools->getSocketPath(), $this->options->timeout);
    }

    /**
     * Runs the chat until the model has answered, calls wait for approval, or a failure occurs. The status of
     * the answer shows the outcome.
     *
     * @param string|list<array<string, mixed>>|null $message the user's message, or messages in the format of
     *                                  OpenAI's chat completions; null resumes a chat whose calls have been decided, or
     *                                  that failed
     * @param ?string $state            the state of a previous answer; resumes its chat
     * @param array{user?: string, channel?: string, request_id?: string, approved?:
     *                                  list<string>|array<string, array<string, mixed>>, denied?:
     *                                  list<string>, approval_wait?: int|float, ...} $context the
     *                                  user for whom tools run; `approved` and `denied` are IDs of
     *                                  approvals, for a tool loop in this process; `approval_wait`
     *                                  is the time in seconds that the sidecar waits for decisions
     *
     * @throws Exception\InvalidInputException when messages, the state or the context are invalid
     * @throws Exception\NotFoundException     when the sidecar has no such model or chat
     * @throws Exception\UnavailableException  when the sidecar is not available
     * @throws Exception\TimeoutException      when the sidecar does not respond in time
     * @throws Exception\PillionException
     */
    public function send(string|array|null $message = null, ?string $state = null, array $context = []): ChatAnswer
    {
        $request = $this->buildRequest($message, $state, false);
        return ChatResponse::parse($this->api->chat($state, $request, Context::fromArray($context)), $state ?? '');
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
        $request = $this->buildRequest($message, $state, true);
        $events = $this->api->openChatEvents($state, $request, Context::fromArray($context));
        return \Closure::bind(
            static fn (EventSource $events, ?string $state): ChatStream => new ChatStream($events, $state),
            null,
            ChatStream::class,
        )($events, $state);
    }

    /**
     * @param string|array<array-key, mixed>|null $message
     *
     * @return array<string, mixed>
     */
    private function buildRequest(string|array|null $message, ?string $state, bool $isStreamed): array
    {
        Argument::checkTexts([1 => is_string($message) ? $message : null, 2 => $state]);
        if ($state === '') {
            throw Failure::invalidInput('$state must not be empty: pass the state of an earlier answer, or null for a new chat');
        }
        $messages = match (true) {
            $message === null => [],
            is_string($message) => [['role' => 'user', 'content' => $message]],
            default => Json::toTree($message, 'argument $message'),
        };
        if (!is_array($messages) || array_filter($messages, static fn (mixed $element): bool => !is_array($element) && !$element instanceof \stdClass) !== []) {
            throw Failure::invalidInput("\$message must be a string or a list of messages, which are arrays with 'role' and 'content'");
        }
        if ($messages === [] && $state === null) {
            throw Failure::invalidInput('A new chat needs a $message; null continues the chat of $state');
        }
        $request = ($messages === [] ? [] : ['messages' => $messages]) + ['stream' => $isStreamed];
        $modelMember = $this->model === null ? [] : ['model' => $this->model];
        return $state === null ? $request + $modelMember + $this->options->startRequest : $request;
    }
}
