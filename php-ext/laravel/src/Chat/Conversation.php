<?php

declare(strict_types=1);

namespace Pillion\Laravel\Chat;

use Pillion\Exception\InvalidInputException;
use Pillion\Laravel\Models\ModelTools;
use Pillion\ProviderFormat;
use Pillion\ToolCall;
use Pillion\ToolResult;

/**
 * A conversation with a model that calls tools. {@see run()} exchanges messages until the model has an answer
 * or a call waits for approval. A conversation can be serialized (into a session, a cache, a queued job) and
 * resumed with `run()`, also after `run()` has thrown: store it in any case, so that calls that have run do
 * not run again.
 */
final class Conversation
{
    /** Maximum number of calls that run for one answer. The other calls get a result that they did not run. */
    private const MAX_CALLS_PER_ANSWER = 32;

    /** Maximum number of approvals that an error names. */
    private const MAX_NAMED_APPROVALS = 3;

    /** @var list<ToolCall> the calls of the current round */
    private array $calls = [];

    /** @var array<int, ToolResult> the results so far, by position of the call */
    private array $results = [];

    /** @var list<array{ToolCall, ToolResult}> the calls that finished in the last {@see run()} */
    private array $finished = [];

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

    /** @internal Changes the limits from now on. */
    public function setLimits(int $maxRounds, int $maxCalls): self
    {
        [$this->maxRounds, $this->maxCalls] = [$maxRounds, $maxCalls];
        return $this;
    }

    /**
     * Runs the conversation until there is an answer or a call needs approval. After `maxRounds` rounds of
     * calls or `maxCalls` calls, whichever comes first, the model gets one last request in which it cannot
     * call tools.
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
        $this->finished = [];
        while ($this->text === null) {
            if ($this->calls !== [] && !$this->finishRound($tools, $context)) {
                break;
            }
            [$offered, $choice] = $this->offeredTools($tools);
            $response = $send($this->messages, $offered, $choice);
            if (!is_array($response)) {
                throw new InvalidInputException('The response of the model must be an array, not ' . get_debug_type($response));
            }
            $calls = ProviderFormat::toolCalls($this->provider, $response);
            // A model that calls tools although none were offered has used up its rounds.
            $messages = ProviderFormat::assistantMessages($this->provider, $response);
            if ($calls === [] || $this->isAtLimit()) {
                $this->text = ProviderFormat::text($this->provider, $response);
                // Providers only accept a conversation in which every call has a result.
                $rejected = array_map(fn (ToolCall $call) => self::notRunResult($call, 'no more tool calls are allowed'), $calls);
                $results = $rejected === [] ? [] : ProviderFormat::results($this->provider, $rejected);
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
     * @throws InvalidInputException naming the approval, while a call waits for one
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
     * Denies the waiting calls; completed results are kept. For an approval that has expired, or a user who
     * continues without it. Continue with {@see run()} or {@see say()}.
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
        $waiting = [];
        foreach ($this->results as $index => $result) {
            if ($result->errorCode === 'approval_required') {
                $waiting[$result->metadata['approval_id']] = $this->calls[$index];
            }
        }
        return $waiting;
    }

    /** @internal Describes what {@see isWaiting()} waits for; names at most three approvals. */
    public function openCalls(): string
    {
        $waiting = $this->waitingFor();
        $names = array_map(
            static fn (int|string $id, ToolCall $call): string => "approval '$id' of tool '$call->name'",
            array_keys($waiting),
            $waiting,
        );
        $more = count($names) - self::MAX_NAMED_APPROVALS;
        return match (true) {
            $names === [] => 'results of tool calls',
            $more > 0 => implode(', ', array_slice($names, 0, self::MAX_NAMED_APPROVALS)) . ", $more more",
            default => implode(', ', $names),
        };
    }

    /** Returns the model's answer; null if there is none yet. */
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
        return $this->finished;
    }

    /**
     * Omits the calls of the last {@see run()}, which would duplicate all arguments and results.
     *
     * @return array<string, mixed>
     */
    public function __serialize(): array
    {
        $state = get_object_vars($this);
        unset($state['finished']);
        return $state;
    }

    /**
     * @internal Returns the limit that stopped further tool calls before the answer: `tool_rounds` or
     *     `tool_calls`
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
     * Records results for the calls that must not run.
     *
     * @param list<ToolCall> $calls
     * @param int            $complete how many calls are complete: a truncated call may have lost its arguments
     */
    private function beginRound(array $calls, int $complete): void
    {
        $this->calls = $calls;
        $this->callCount += count($calls);
        $max = self::MAX_CALLS_PER_ANSWER;
        foreach (array_slice($calls, min($max, $complete), preserve_keys: true) as $index => $call) {
            $reason = $index < $complete ? "a response may have at most $max tool calls" : 'the response was cut off before the call was complete';
            $this->results[$index] = self::notRunResult($call, $reason);
            $this->finished[] = [$call, $this->results[$index]];
        }
    }

    /** Runs the open calls; returns false if a call waits for approval. */
    private function finishRound(ModelTools $tools, array $context): bool
    {
        $open = array_filter($this->calls, fn (int $index) => $this->isOpen($index), ARRAY_FILTER_USE_KEY);
        $finished = array_combine(array_keys($open), $tools->execute(array_values($open), $context));
        $this->results = array_replace($this->results, $finished);
        foreach ($finished as $index => $result) {
            if ($result->errorCode !== 'approval_required') {
                $this->finished[] = [$this->calls[$index], $result];
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
        $error = "The call to tool '$call->name' was denied: nobody allowed it in time";
        return ToolResult::failure($error, 'denied', $call->id, $call->name);
    }
}
