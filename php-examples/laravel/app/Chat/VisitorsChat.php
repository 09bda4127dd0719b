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
 * The chat of one visitor with one model. All that there is of it is kept after each answer: in the cache,
 * since a session is stored before a stream begins, and where no visitor can change it.
 */
final class VisitorsChat
{
    private const KEPT_FOR = 24 * 3600;

    /** In seconds: longer than two answers may take, that to what was decided and that to what is said. */
    private const LOCKED_FOR = 270;

    private ?string $state = null;

    /** @var list<array{id: ?string, call: string, tool: string, arguments: mixed}> the calls that waited then */
    private array $approvals = [];

    private function __construct(private readonly string $visitor, public readonly string $model)
    {
    }

    /**
     * For whoever goes on with the chat, from before it is loaded until it is kept: two requests at once would
     * run the same calls.
     */
    public static function lock(string $visitor): Lock
    {
        return Cache::lock("chat lock of $visitor", self::LOCKED_FOR);
    }

    /** The one that this visitor has, with whichever model. */
    public static function of(string $visitor): ?self
    {
        $kept = Cache::get("chat of $visitor");
        if (!is_array($kept)) {
            return null;
        }
        $chat = new self($visitor, $kept['model']);
        [$chat->state, $chat->approvals] = [$kept['state'], $kept['approvals']];
        return $chat;
    }

    /** That with this model; a new one where there is none. */
    public static function with(string $visitor, string $model): self
    {
        $chat = self::of($visitor);
        return $chat?->model === $model ? $chat : new self($visitor, $model);
    }

    /**
     * Goes on until there is an answer, or calls wait for the visitor's word.
     *
     * @param ?string $message what the visitor says; null when calls were decided on
     *
     * @return iterable<ChatEvent> what happens as it comes
     */
    public function stream(?string $message = null): iterable
    {
        foreach ($this->chat()->stream($message, $this->state, $this->lapsed()) as $event) {
            if ($event->answer !== null) {
                $this->keep($event->answer);
            }
            yield $event;
        }
    }

    /** Goes on with calls on which somebody has decided elsewhere, in the console for example, or nobody in time. */
    public function goOnWithWhatIsDecided(): void
    {
        if ($this->approvals !== [] && $this->waiting() === []) {
            $this->keep($this->chat()->send(null, $this->state, $this->lapsed()));
        }
    }

    /** @return list<array{id: string, tool: string, arguments: mixed}> the calls that can be decided on */
    public function waiting(): array
    {
        $waiting = array_filter($this->approvals, fn (array $call) => Pillion::approvals()->find($call['id'])?->isPending());
        $shown = fn (array $call) => array_intersect_key($call, ['id' => 0, 'tool' => 0, 'arguments' => 0]);
        return array_values(array_map($shown, $waiting));
    }

    /** Whether it waits for that call, decided on or not. */
    public function waitsFor(string $approval): bool
    {
        return in_array($approval, array_column($this->approvals, 'id'), true);
    }

    private function chat(): Chat
    {
        return Pillion::forUser($this->visitor)->chat($this->model);
    }

    /** @return array{denied?: list<string>} the approvals that have lapsed, which count as denied */
    private function lapsed(): array
    {
        $lapsed = array_filter(array_column($this->approvals, 'id'), fn (string $id) => Pillion::approvals()->find($id) === null);
        return $lapsed === [] ? [] : ['denied' => array_values($lapsed)];
    }

    /** Also when the model has failed: a tool that has run must not run again. */
    private function keep(ChatAnswer $answer): void
    {
        [$this->state, $this->approvals] = [$answer->state, $answer->approvals];
        $kept = ['model' => $this->model, 'state' => $this->state, 'approvals' => $this->approvals];
        Cache::put("chat of $this->visitor", $kept, self::KEPT_FOR);
    }
}
