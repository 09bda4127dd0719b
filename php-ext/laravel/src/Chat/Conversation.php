<?php

declare(strict_types=1);

namespace Pillion\Laravel\Chat;

use Pillion\Exception\InvalidInputException;
use Pillion\Laravel\Models\ModelTools;
use Pillion\ProviderFormat;
use Pillion\ToolCall;
use Pillion\ToolResult;

/**
 * A conversation with a model that calls tools. {@see run()} exchanges messages until the model
 * gives its final response or a call waits for approval. A conversation can be serialized (into a
 * session, a cache, a queued job) and resumed with `run()`, even after `run()` has thrown an
 * exception. Store the conversation after each `run()`, even a failed one, so that calls that have
 * run do not run again.
 */
final class Conversation
{
    /**
     * Maximum number of calls that run for one response of the model. Each further call in the
     * response gets a failed result.
     */
    private const MAX_CALLS_PER_ANSWER = 32;

    /** Maximum number of approvals that an error message lists. */
    private const MAX_NAMED_APPROVALS = 3;

    /** @var list<ToolCall> the calls of the current round */
    private array $calls = [];

    /** @var array<int, ToolResult> the results of the current round, by index of the call in `$calls` */
    private array $results = [];

    /** @var list<array{ToolCall, ToolResult}> the calls that finished in the last {@see run()} */
    private array $finishedCalls = [];

    private int $rounds = 0;

    /** Number of tool calls since the last user message. */
    private int $callCount = 0;

    private ?string $text = null;

    /** @param list<array<string, mixed>> $messages in the provider's format */
    public function __construct(
        private readonly string $provider,
        private array $messages,
        private int $maxRounds = 5,
        private int $maxCalls = 5,
    ) {
    }

    /** @internal Changes the maximum numbers of rounds and of calls that {@see run()} permits. */
    public function setLimits(int $maxRounds, int $maxCalls): self
    {
        [$this->maxRounds, $this->maxCalls] = [$maxRounds, $maxCalls];
        return $this;
    }

    /**
     * Runs the conversation until the model gives its final response or a call needs approval. After `maxRounds` rounds
     * of calls or `maxCalls` calls, whichever comes first, the model gets one last request in which it cannot call
     * tools.
     *
     * @param callable(list<array<string, mixed>>, list<array<string, mixed>>, ?array<string, string>): array<string, mixed> $send
     *        `fn(array $messages, array $tools, ?array $toolChoice): array` sends a request to the model and
     *        returns the decoded body of the response. `$tools` may be empty. Send `$toolChoice` as
     *        `tool_choice` unless it is null: Anthropic rejects a conversation that contains calls but no
     *        tools, so the last request contains the tools and forbids their use
     * @param array<string, mixed> $context context of the calls: `user`, `channel`, ...
     */
    public function run(ModelTools $tools, callable $send, array $context = []): self
    {
        $this->finishedCalls = [];
        while ($this->text === null) {
            if ($this->calls !== [] && !$this->finishRound($tools, $context)) {
                break;
            }
            [$offeredTools, $toolChoice] = $this->offeredTools($tools);
            $response = $send($this->messages, $offeredTools, $toolChoice);
            if (!is_array($response)) {
                throw new InvalidInputException('The response of the model must be an array, not ' . get_debug_type($response));
            }
            $calls = ProviderFormat::toolCalls($this->provider, $response);
            $messages = ProviderFormat::assistantMessages($this->provider, $response);
            // Calls after the limit do not start a round, because the last request did not permit
            // the model to call tools.
            if ($calls === [] || $this->isAtLimit()) {
                $this->text = ProviderFormat::text($this->provider, $response);
                // Each remaining call gets a failed result, because providers only accept a
                // conversation in which every call has a result.
                $rejectedResults = array_map(fn (ToolCall $call) => self::notRunResult($call, 'no more tool calls are allowed'), $calls);
                $results = $rejectedResults === [] ? [] : ProviderFormat::results($this->provider, $rejectedResults);
                $this->messages = [...$this->messages, ...$messages, ...$results];
                break;
            }
            $this->messages = [...$this->messages, ...$messages];
            $this->beginRound($calls, FinishReason::countCompleteCalls($response, count($calls)));
        }
        return $this;
    }

    /**
     * Adds the next message of the user.
     *
     * @param array<string, mixed> $message in the provider's format
     *
     * @throws InvalidInputException while a call waits for an approval; the exception's message
     *         contains the ID of the approval
     */
    public function addMessage(array $message): self
    {
        if ($this->isWaiting()) {
            throw new InvalidInputException("The conversation waits for {$this->openCalls()}: call run() after the decision, or abandon()");
        }
        $this->messages[] = $message;
        $this->text = null;
        $this->rounds = 0;
        $this->callCount = 0;
        return $this;
    }

    /**
     * Denies the calls that wait for approval. Other calls keep their results. Use this method if
     * an approval has expired, or if the user continues without the calls. Continue with {@see
     * run()} or {@see addMessage()}.
     */
    public function abandon(): self
    {
        foreach ($this->calls as $index => $call) {
            if ($this->isOpen($index)) {
                $this->results[$index] = self::deniedResult($call);
            }
        }
        if ($this->calls !== []) {
            $this->endRound();
        }
        return $this;
    }

    /** Returns whether a call waits for approval. */
    public function isWaiting(): bool
    {
        return $this->calls !== [];
    }

    /** @return array<string, ToolCall> the waiting calls, by the IDs of their approvals */
    public function waitingFor(): array
    {
        $waitingCalls = [];
        foreach ($this->results as $index => $result) {
            if ($result->errorCode === 'approval_required') {
                $waitingCalls[$result->metadata['approval_id']] = $this->calls[$index];
            }
        }
        return $waitingCalls;
    }

    /** @internal Describes the calls that wait for approval, for error messages; names at most three approvals. */
    public function openCalls(): string
    {
        $waitingCalls = $this->waitingFor();
        $descriptions = array_map(
            static fn (int|string $id, ToolCall $call): string => "approval '$id' of tool '$call->name'",
            array_keys($waitingCalls),
            $waitingCalls,
        );
        $unnamedCount = count($descriptions) - self::MAX_NAMED_APPROVALS;
        return match (true) {
            $descriptions === [] => 'results of tool calls',
            $unnamedCount > 0 => implode(', ', array_slice($descriptions, 0, self::MAX_NAMED_APPROVALS)) . ", $unnamedCount more",
            default => implode(', ', $descriptions),
        };
    }

    /** Returns the text of the model's final response; null if the model has not given its final response yet. */
    public function text(): ?string
    {
        return $this->text;
    }

    /** @return list<array<string, mixed>> all messages, in the provider's format */
    public function messages(): array
    {
        return $this->messages;
    }

    /**
     * @internal
     *
     * @return list<array{ToolCall, ToolResult}> the calls that finished in the last {@see run()}
     */
    public function finishedCalls(): array
    {
        return $this->finishedCalls;
    }

    /**
     * Returns the serialized properties without the calls of the last {@see run()}, which would
     * duplicate all arguments and results.
     *
     * @return array<string, mixed>
     */
    public function __serialize(): array
    {
        $state = get_object_vars($this);
        unset($state['finishedCalls']);
        return $state;
    }

    /**
     * @internal Returns the limit that stopped further tool calls before the final response:
     *     `tool_rounds` or `tool_calls`; null if no limit was reached
     */
    public function limitReached(): ?string
    {
        return match (true) {
            $this->text === null => null,
            $this->rounds >= $this->maxRounds => 'tool_rounds',
            $this->callCount >= $this->maxCalls => 'tool_calls',
            default => null,
        };
    }

    /** Returns the number of rounds of tool calls since the last user message. */
    public function rounds(): int
    {
        return $this->rounds;
    }

    private function isAtLimit(): bool
    {
        return $this->rounds >= $this->maxRounds || $this->callCount >= $this->maxCalls;
    }

    /** @return array{list<array<string, mixed>>, ?array<string, string>} the tools of a request, and its `tool_choice` */
    private function offeredTools(ModelTools $tools): array
    {
        return match (true) {
            !$this->isAtLimit() => [$tools->format($this->provider), null],
            $this->provider === 'anthropic' => [$tools->format($this->provider), ['type' => 'none']],
            default => [[], null],
        };
    }

    /**
     * Begins a round with the calls of a response. Incomplete calls and the calls above the maximum
     * get failed results, so that they do not run.
     *
     * @param list<ToolCall> $calls
     * @param int            $completeCount how many calls are complete: a truncated call may have lost its arguments
     */
    private function beginRound(array $calls, int $completeCount): void
    {
        $this->calls = $calls;
        $this->callCount += count($calls);
        $maxCallsPerAnswer = self::MAX_CALLS_PER_ANSWER;
        foreach (array_slice($calls, min($maxCallsPerAnswer, $completeCount), preserve_keys: true) as $index => $call) {
            $reason = $index < $completeCount ? "a response may have at most $maxCallsPerAnswer tool calls" : 'the response was cut off before the call was complete';
            $this->results[$index] = self::notRunResult($call, $reason);
            $this->finishedCalls[] = [$call, $this->results[$index]];
        }
    }

    /** Runs the calls that have no result yet. Returns false if a call waits for approval. */
    private function finishRound(ModelTools $tools, array $context): bool
    {
        $openCalls = array_filter($this->calls, fn (int $index) => $this->isOpen($index), ARRAY_FILTER_USE_KEY);
        $newResults = array_combine(array_keys($openCalls), $tools->execute(array_values($openCalls), $context));
        $this->results = array_replace($this->results, $newResults);
        foreach ($newResults as $index => $result) {
            if ($result->errorCode !== 'approval_required') {
                $this->finishedCalls[] = [$this->calls[$index], $result];
            }
        }
        if ($this->waitingFor() !== []) {
            return false;
        }
        $this->endRound();
        return true;
    }

    private function isOpen(int $index): bool
    {
        return !isset($this->results[$index]) || $this->results[$index]->errorCode === 'approval_required';
    }

    private function endRound(): void
    {
        ksort($this->results);
        $results = array_values($this->results);
        $this->messages = [...$this->messages, ...ProviderFormat::results($this->provider, $results)];
        $this->calls = [];
        $this->results = [];
        $this->rounds++;
    }

    private static function notRunResult(ToolCall $call, string $reason): ToolResult
    {
        return ToolResult::failure("Not run: $reason", 'invalid_input', $call->id, $call->name);
    }

    private static function deniedResult(ToolCall $call): ToolResult
    {
        $error = "The call to tool '$call->name' was denied: the conversation continued without an approval";
        return ToolResult::failure($error, 'denied', $call->id, $call->name);
    }
}
