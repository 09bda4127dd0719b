<?php

declare(strict_types=1);

namespace App\Http\Controllers;

use App\Chat\Visitor;
use App\Chat\VisitorsChat;
use Closure;
use Illuminate\Contracts\Cache\Lock;
use Illuminate\Contracts\View\View;
use Illuminate\Http\JsonResponse;
use Illuminate\Http\Request;
use LogicException;
use Pillion\ChatEvent;
use Pillion\Exception\NotFoundException;
use Pillion\Laravel\Facades\Pillion;
use Pillion\Laravel\Models\ModelDirectory;
use Symfony\Component\HttpFoundation\StreamedResponse;

class ChatController
{
    public function __construct(private readonly ModelDirectory $models)
    {
    }

    public function show(): View
    {
        $chat = VisitorsChat::find(self::visitorId());
        return view('chat', [
            'models' => $this->models->names(),
            'model' => $chat?->model,
            'waiting' => $chat?->waitingCalls() ?? [],
        ]);
    }

    /** Lists the tools that a model may use. The query string contains the name of the model. */
    public function tools(Request $request): JsonResponse
    {
        return response()->json(Pillion::forModel($this->requireModel($request->query('model')))->names());
    }

    /** Handles a message of the visitor. */
    public function sendMessage(Request $request): JsonResponse|StreamedResponse
    {
        $message = $request->input('message');
        abort_unless(is_string($message) && $message !== '', 422, 'The message is missing.');
        $model = $this->requireModel($request->input('model'));
        return self::withLock(function (Lock $lock) use ($message, $model): JsonResponse|StreamedResponse {
            $chat = VisitorsChat::findOrCreate(self::visitorId(), $model);
            $chat->resumeIfDecided();
            return $chat->waitingCalls() === []
                ? self::stream($chat, $message, $lock)
                : response()->json(['error' => 'Approve or deny the call first.'], 409);
        });
    }

    /** Handles the visitor's decision on a call. */
    public function decide(Request $request, string $id): JsonResponse|StreamedResponse
    {
        return self::withLock(fn (Lock $lock) => self::decideOn($id, $request->input('approve') === true, $lock));
    }

    private static function decideOn(string $id, bool $isApproved, Lock $lock): JsonResponse|StreamedResponse
    {
        $chat = VisitorsChat::find(self::visitorId());
        $approval = Pillion::approvals()->find($id);
        if ($approval === null && $chat?->isWaitingFor($id)) {
            // The approval has expired, so the resumed chat denies the call.
            return self::stream($chat, null, $lock);
        }
        // The call must belong to the visitor's own chat, because visitors must not approve or deny
        // the calls of other visitors.
        if ($approval === null || $approval->user !== Visitor::id()) {
            return response()->json(['error' => 'The call does not exist.'], 404);
        }
        try {
            $isApproved
                ? Pillion::approvals()->approve($id, by: $approval->user)
                : Pillion::approvals()->deny($id, by: $approval->user);
        } catch (NotFoundException) {
            return response()->json(['error' => 'The call is already decided.'], 409);
        }
        return $chat?->isWaitingFor($id) ? self::stream($chat, null, $lock) : response()->json([]);
    }

    /**
     * Calls `$respond` with the lock of the visitor's chat, so that no other request continues the
     * chat. A streamed response releases the lock when the stream ends.
     *
     * @param Closure(Lock): (JsonResponse|StreamedResponse) $respond
     */
    private static function withLock(Closure $respond): JsonResponse|StreamedResponse
    {
        $lock = VisitorsChat::lock(self::visitorId());
        if (!$lock->get()) {
            return response()->json(['error' => 'The previous message is still being answered.'], 409);
        }
        try {
            return $response = $respond($lock);
        } finally {
            if (!($response ?? null) instanceof StreamedResponse) {
                $lock->release();
            }
        }
    }

    /** Streams the events of the chat as server-sent events. */
    private static function stream(VisitorsChat $chat, ?string $message, Lock $lock): StreamedResponse
    {
        return response()->stream(function () use ($chat, $message, $lock): void {
            // The chat runs to its end even if the visitor leaves the page, so that the chat is
            // complete when the visitor returns.
            ignore_user_abort(true);
            try {
                foreach ($chat->stream($message) as $event) {
                    echo "event: $event->type\ndata: ", json_encode(self::eventData($chat, $event), JSON_INVALID_UTF8_SUBSTITUTE), "\n\n";
                    ob_get_level() > 0 && ob_flush();
                    flush();
                }
            } finally {
                $lock->release();
            }
        }, headers: ['Content-Type' => 'text/event-stream', 'Cache-Control' => 'no-cache', 'X-Accel-Buffering' => 'no']);
    }

    /** @return array<string, mixed> */
    private static function eventData(VisitorsChat $chat, ChatEvent $event): array
    {
        if ($event->answer === null) {
            return $event->data;
        }
        return [
            'status' => $event->answer->status,
            'text' => $event->answer->text,
            'limit' => $event->answer->limitReached,
            // The reason of a failure is written to the log only, because visitors should not see
            // it.
            'error' => $event->answer->status === 'failed' ? 'The model cannot answer at the moment.' : null,
            'waiting' => $chat->waitingCalls(),
        ];
    }

    /** Returns the visitor's ID. Visitors without an ID would share one chat. */
    private static function visitorId(): string
    {
        return Visitor::id() ?? throw new LogicException("The chat's routes need a session: add the middleware group 'web'");
    }

    /**
     * Returns the model named in the request, if it is configured. A request may contain only the
     * name of a model, because a model array from the request could grant the model more
     * permissions.
     */
    private function requireModel(mixed $name): string
    {
        abort_unless(is_string($name) && in_array($name, $this->models->names(), true), 422, 'The model does not exist.');
        return $name;
    }
}
