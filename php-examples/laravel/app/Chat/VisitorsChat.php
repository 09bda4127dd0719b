<?php

declare(strict_types=1);

namespace App\Chat;

use Illuminate\Contracts\Cache\Lock;
use Illuminate\Support\Facades\Cache;
use Pillion\ChatAnswer;
use Pillion\ChatEvent;
use Pillion\Laravel\Chat\Chat;
use Pillion\Laravel\Facades\Pillion;

/**
 * The chat of one visitor with one model. The state is stored in the cache after each run. The
 * state is not stored in the session, because Laravel saves the session before a stream begins.
 * Visitors cannot change the cache.
 */
final class VisitorsChat
{
    private const STATE_TTL = 24 * 3600;

    /**
     * Timeout of the lock in seconds. A request may wait for two responses of the model (one after
     * an approval decision, and one to the new message), so the timeout is longer than the time for
     * both.
     */
    private const LOCK_TIMEOUT = 270;

    private ?string $state = null;

    /** @var list<array{id: ?string, call: string, tool: string, arguments: mixed}> the calls that waited for approval after the last run */
    private array $approvals = [];

    private function __construct(private readonly string $visitor, public readonly string $model)
    {
    }

    /**
     * Returns the lock for continuing the visitor's chat. Hold the lock from before the chat is loaded until
     * the chat is stored: without the lock, two concurrent requests would run the same calls.
     */
    public static function lock(string $visitor): Lock
    {
        return Cache::lock("chat lock of $visitor", self::LOCK_TIMEOUT);
    }

    /** Returns the visitor's chat, whichever model it uses; null if the visitor has no chat. */
    public static function find(string $visitor): ?self
    {
        $storedChat = Cache::get("chat of $visitor");
        if (!is_array($storedChat)) {
            return null;
        }
        $chat = new self($visitor, $storedChat['model']);
        [$chat->state, $chat->approvals] = [$storedChat['state'], $storedChat['approvals']];
        return $chat;
    }

    /** Returns the visitor's chat with this model, or a new chat. */
    public static function findOrCreate(string $visitor, string $model): self
    {
        $chat = self::find($visitor);
        return $chat?->model === $model ? $chat : new self($visitor, $model);
    }

    /**
     * Runs the chat until the model has answered or calls wait for the visitor's approval.
     *
     * @param ?string $message the visitor's message; null after a decision on calls
     *
     * @return iterable<ChatEvent> the events of the chat, as they happen
     */
    public function stream(?string $message = null): iterable
    {
        foreach ($this->chat()->stream($message, $this->state, $this->deniedContext()) as $event) {
            if ($event->answer !== null) {
                $this->store($event->answer);
            }
            yield $event;
        }
    }

    /**
     * Resumes the chat if its calls were approved or denied elsewhere (for example in the console),
     * or if their approvals have expired.
     */
    public function resumeIfDecided(): void
    {
        if ($this->approvals !== [] && $this->waitingCalls() === []) {
            $this->store($this->chat()->send(null, $this->state, $this->deniedContext()));
        }
    }

    /** @return list<array{id: string, tool: string, arguments: mixed}> the calls that wait for a decision */
    public function waitingCalls(): array
    {
        $waitingCalls = array_filter($this->approvals, fn (array $call) => Pillion::approvals()->find($call['id'])?->isPending());
        $selectMembers = fn (array $call) => array_intersect_key($call, ['id' => 0, 'tool' => 0, 'arguments' => 0]);
        return array_values(array_map($selectMembers, $waitingCalls));
    }

    /**
     * Returns whether the chat waits for the call of this approval, even if the call has already
     * been approved or denied.
     */
    public function isWaitingFor(string $approval): bool
    {
        return in_array($approval, array_column($this->approvals, 'id'), true);
    }

    private function chat(): Chat
    {
        return Pillion::forUser($this->visitor)->chat($this->model);
    }

    /** @return array{denied?: list<string>} the expired approvals, which count as denied */
    private function deniedContext(): array
    {
        $expiredIds = array_filter(array_column($this->approvals, 'id'), fn (string $id) => Pillion::approvals()->find($id) === null);
        return $expiredIds === [] ? [] : ['denied' => array_values($expiredIds)];
    }

    /** Stores the chat even if the model fails, because a tool that has run must not run again. */
    private function store(ChatAnswer $answer): void
    {
        [$this->state, $this->approvals] = [$answer->state, $answer->approvals];
        $storedChat = ['model' => $this->model, 'state' => $this->state, 'approvals' => $this->approvals];
        Cache::put("chat of $this->visitor", $storedChat, self::STATE_TTL);
    }
}
