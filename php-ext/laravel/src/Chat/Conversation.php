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
    /** @var list<ToolCall> what the model called in this round */
    private array $calls = [];

    /** @var array<int, ToolResult> what is done of it, by the place of the call */
    private array $results = [];

    /** @var list<array{ToolCall, ToolResult}> what has run in the last {@see run()} */
    private array $ran = [];

    private int $rounds = 0;

    private ?string $text = null;

    /** @param list<array<string, mixed>> $messages in the provider's format */
    public function __construct(
        private readonly string $provider,
        private array $messages,
        private readonly int $maxRounds = 5,
    ) {
    }

    /**
     * Goes on until there is an answer or an approval is needed. After `maxRounds` rounds of calls
     * the model is asked once more, without tools.
     *
     * @param callable(list<array<string, mixed>>, list<array<string, mixed>>): array<string, mixed> $send
     *        `fn(array $messages, array $tools): array` sends a request to the model and returns the
     *        decoded body of the response; `$tools` may be empty
     * @param array<string, mixed> $context of the calls: `user`, `channel`, ...
     */
    public function run(ModelTools $tools, callable $send, array $context = []): self
    {
        $this->ran = [];
        while ($this->text === null) {
            if ($this->calls !== [] && !$this->finishRound($tools, $context)) {
                break;
            }
            $offered = $this->rounds < $this->maxRounds ? $tools->format($this->provider) : [];
            $response = $send($this->messages, $offered);
            if (!is_array($response)) {
                throw new InvalidInputException('A response of a model is an array, not ' . get_debug_type($response));
            }
            $calls = ProviderFormat::toolCalls($this->provider, $response);
            // A model that calls tools though it was offered none has had its rounds.
            if ($calls === [] || $this->rounds >= $this->maxRounds) {
                $this->text = ProviderFormat::text($this->provider, $response);
                $this->messages = [...$this->messages, ...$this->answer($response, $calls)];
                break;
            }
            $this->messages = [...$this->messages, ...ProviderFormat::assistantMessages($this->provider, $response)];
            $this->calls = $calls;
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
     * @return list<array{ToolCall, ToolResult}> the calls that have run in the last {@see run()}
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

    /** @internal Whether it has been answered because the model may call no more tools. */
    public function isAtItsLimit(): bool
    {
        return $this->text !== null && $this->rounds >= $this->maxRounds;
    }

    /** How often the model called tools since the user spoke. */
    public function rounds(): int
    {
        return $this->rounds;
    }

    /**
     * The answer as messages. Calls that will have no results must not stay in it.
     *
     * @param array<string, mixed> $response
     * @param list<ToolCall>       $calls
     *
     * @return list<array<string, mixed>>
     */
    private function answer(array $response, array $calls): array
    {
        if ($calls === []) {
            return ProviderFormat::assistantMessages($this->provider, $response);
        }
        return [$this->provider === 'google'
            ? ['role' => 'model', 'parts' => [['text' => (string) $this->text]]]
            : ['role' => 'assistant', 'content' => (string) $this->text]];
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
