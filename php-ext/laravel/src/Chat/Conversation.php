<?php

declare(strict_types=1);

namespace Pillion\Laravel\Chat;

use Pillion\Exception\InvalidInputException;
use Pillion\Laravel\Models\ModelTools;
use Pillion\ProviderFormat;
use Pillion\ToolCall;
use Pillion\ToolResult;

/**
 * A conversation with a model that calls tools: goes back and forth until the model has an answer,
 * or until a call waits for somebody's approval. It can be serialised (into a session, a cache, a
 * queued job) and gone on with by {@see run()}, also when run() has thrown: keep it in any case, so
 * that what has run does not run again.
 */
final class Conversation
{
    /** Calls of one answer that are run. The model is told that the others are not. */
    private const MOST_CALLS_OF_ANSWER = 32;

    /** @var list<ToolCall> what the model called in this round */
    private array $calls = [];

    /** @var array<int, ToolResult> what is done of it, by the place of the call */
    private array $results = [];

    /** @var list<array{ToolCall, ToolResult}> what has ended in the last {@see run()} */
    private array $ran = [];

    private int $rounds = 0;

    /** How many tools the model called since the user spoke. */
    private int $called = 0;

    private ?string $text = null;

    /** @param list<array<string, mixed>> $messages in the provider's format */
    public function __construct(
        private readonly string $provider,
        private array $messages,
        private int $maxRounds = 5,
        private int $maxCalls = 5,
    ) {
    }

    /** @internal Other limits, from here on */
    public function limitTo(int $maxRounds, int $maxCalls): self
    {
        [$this->maxRounds, $this->maxCalls] = [$maxRounds, $maxCalls];
        return $this;
    }

    /**
     * Goes on until there is an answer or an approval is needed. After `maxRounds` rounds of calls, or
     * `maxCalls` calls, whichever comes first, the model is asked once more, and may call nothing.
     *
     * @param callable(list<array<string, mixed>>, list<array<string, mixed>>, ?array<string, string>): array<string, mixed> $send
     *        `fn(array $messages, array $tools, ?array $toolChoice): array` sends a request to the model and
     *        returns the decoded body of the response. `$tools` may be empty; `$toolChoice` goes into
     *        `tool_choice` where it is not null: Anthropic refuses a conversation with calls that comes
     *        without tools, so that its last request has them, and may use none
     * @param array<string, mixed> $context of the calls: `user`, `channel`, ...
     */
    public function run(ModelTools $tools, callable $send, array $context = []): self
    {
        $this->ran = [];
        while ($this->text === null) {
            if ($this->calls !== [] && !$this->finishRound($tools, $context)) {
                break;
            }
            [$offered, $choice] = $this->offer($tools);
            $response = $send($this->messages, $offered, $choice);
            if (!is_array($response)) {
                throw new InvalidInputException('A response of a model is an array, not ' . get_debug_type($response));
            }
            $calls = ProviderFormat::toolCalls($this->provider, $response);
            // A model that calls tools though it was offered none has had its rounds.
            $messages = ProviderFormat::assistantMessages($this->provider, $response);
            if ($calls === [] || $this->isAtLimit()) {
                $this->text = ProviderFormat::text($this->provider, $response);
                // Every call has a result in a conversation that a provider takes.
                $unwanted = array_map(fn (ToolCall $call) => self::notRun($call, 'no more tools may be called'), $calls);
                $results = $unwanted === [] ? [] : ProviderFormat::results($this->provider, $unwanted);
                $this->messages = [...$this->messages, ...$messages, ...$results];
                break;
            }
            $this->messages = [...$this->messages, ...$messages];
            $this->beginRound($calls, Ending::wholeCalls($response, count($calls)));
        }
        return $this;
    }

    /** Adds what the user says next. @param array<string, mixed> $message in the provider's format */
    public function say(array $message): self
    {
        if ($this->isWaiting()) {
            throw new InvalidInputException('The conversation waits for an approval');
        }
        $this->messages[] = $message;
        $this->text = null;
        $this->rounds = 0;
        $this->called = 0;
        return $this;
    }

    /**
     * Gives up what waits: the model is told that those calls were denied. What has run stays.
     * For an approval that has lapsed, or a user who goes on without it; {@see run()} or
     * {@see say()} goes on.
     */
    public function abandon(): self
    {
        foreach ($this->calls as $place => $call) {
            if ($this->isOpen($place)) {
                $this->results[$place] = self::denied($call);
            }
        }
        if ($this->calls !== []) {
            $this->endRound();
        }
        return $this;
    }

    /** Whether a call waits for approval. */
    public function isWaiting(): bool
    {
        return $this->calls !== [];
    }

    /** @return array<string, ToolCall> the calls that wait, by the ids of their approvals */
    public function waitingFor(): array
    {
        $waiting = [];
        foreach ($this->results as $place => $result) {
            if ($result->errorCode === 'approval_required') {
                $waiting[$result->metadata['approval_id']] = $this->calls[$place];
            }
        }
        return $waiting;
    }

    /** The model's answer; null while there is none. */
    public function text(): ?string
    {
        return $this->text;
    }

    /** @return list<array<string, mixed>> all of them, in the provider's format */
    public function messages(): array
    {
        return $this->messages;
    }

    /**
     * @internal
     *
     * @return list<array{ToolCall, ToolResult}> the calls that have ended in the last {@see run()}
     */
    public function ran(): array
    {
        return $this->ran;
    }

    /**
     * What has run is told once, and would be all arguments and results a second time.
     *
     * @return array<string, mixed>
     */
    public function __serialize(): array
    {
        $kept = get_object_vars($this);
        unset($kept['ran']);
        return $kept;
    }

    /** @internal Why the model could call no more tools when it answered: `tool_rounds`, `tool_calls` */
    public function limitReached(): ?string
    {
        return match (true) {
            $this->text === null => null,
            $this->rounds >= $this->maxRounds => 'tool_rounds',
            $this->called >= $this->maxCalls => 'tool_calls',
            default => null,
        };
    }

    /** How often the model called tools since the user spoke. */
    public function rounds(): int
    {
        return $this->rounds;
    }

    private function isAtLimit(): bool
    {
        return $this->rounds >= $this->maxRounds || $this->called >= $this->maxCalls;
    }

    /** @return array{list<array<string, mixed>>, ?array<string, string>} the tools of a request, and its `tool_choice` */
    private function offer(ModelTools $tools): array
    {
        return match (true) {
            !$this->isAtLimit() => [$tools->format($this->provider), null],
            $this->provider === 'anthropic' => [$tools->format($this->provider), ['type' => 'none']],
            default => [[], null],
        };
    }

    /**
     * Ends the calls that are not to run at once.
     *
     * @param list<ToolCall> $calls
     * @param int            $whole how many of them: one that was cut off may have lost its arguments
     */
    private function beginRound(array $calls, int $whole): void
    {
        $this->calls = $calls;
        $this->called += count($calls);
        $most = self::MOST_CALLS_OF_ANSWER;
        foreach (array_slice($calls, min($most, $whole), preserve_keys: true) as $place => $call) {
            $why = $place < $whole ? "no more than $most calls of one answer are" : 'the answer was cut off before the call was whole';
            $this->results[$place] = self::notRun($call, $why);
            $this->ran[] = [$call, $this->results[$place]];
        }
    }

    /** Runs what has not run; false when a call waits for approval. */
    private function finishRound(ModelTools $tools, array $context): bool
    {
        $open = array_filter($this->calls, fn (int $place) => $this->isOpen($place), ARRAY_FILTER_USE_KEY);
        $ran = array_combine(array_keys($open), $tools->execute(array_values($open), $context));
        $this->results = array_replace($this->results, $ran);
        foreach ($ran as $place => $result) {
            if ($result->errorCode !== 'approval_required') {
                $this->ran[] = [$this->calls[$place], $result];
            }
        }
        if ($this->waitingFor() !== []) {
            return false;
        }
        $this->endRound();
        return true;
    }

    private function isOpen(int $place): bool
    {
        return !isset($this->results[$place]) || $this->results[$place]->errorCode === 'approval_required';
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

    private static function notRun(ToolCall $call, string $why): ToolResult
    {
        return new ToolResult($call->id, $call->name, null, success: false, error: "Not run: $why", errorCode: 'invalid_input');
    }

    private static function denied(ToolCall $call): ToolResult
    {
        return new ToolResult(
            $call->id,
            $call->name,
            null,
            success: false,
            error: "The call of tool '$call->name' was denied: nobody allowed it in time",
            errorCode: 'denied',
        );
    }
}
