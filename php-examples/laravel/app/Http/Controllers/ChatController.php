<?php

declare(strict_types=1);

namespace App\Http\Controllers;

use App\Chat\LanguageModel;
use App\Chat\Visitor;
use Illuminate\Contracts\View\View;
use Illuminate\Http\JsonResponse;
use Illuminate\Http\Request;
use Pillion\Exception\NotFoundException;
use Pillion\Laravel\Chat\Conversation;
use Pillion\Laravel\Facades\Pillion;
use Pillion\Laravel\Models\ModelDirectory;

class ChatController
{
    public function __construct(private readonly LanguageModel $llm, private readonly ModelDirectory $models)
    {
    }

    public function show(): View
    {
        $kept = $this->conversation((string) session('model'));
        return view('chat', [
            'models' => $this->models->names(),
            'model' => session('model'),
            'waiting' => $kept === null ? [] : self::waiting($kept),
        ]);
    }

    /** What the model of the query sees. */
    public function tools(Request $request): JsonResponse
    {
        return response()->json(Pillion::forModel($this->model($request->query('model')))->names());
    }

    /** The user says something. */
    public function say(Request $request): JsonResponse
    {
        $model = $this->model($request->input('model'));
        $message = ['role' => 'user', 'content' => (string) $request->input('message')];
        $conversation = $this->conversation($model);
        if ($conversation !== null && self::isDecided($conversation)) {
            $this->run($model, $conversation);
        }
        if ($conversation !== null && self::waiting($conversation) !== []) {
            return response()->json(['error' => 'Approve or deny the call first.'], 409);
        }
        // An approval that has lapsed counts as denied.
        $conversation = $conversation?->abandon()->say($message) ?? Pillion::forModel($model)->conversation([$message]);
        return $this->goOn($model, $conversation);
    }

    /** The user allows a call, or does not. */
    public function decide(Request $request, string $id): JsonResponse
    {
        $model = (string) session('model');
        $conversation = $this->conversation($model);
        $approval = Pillion::approvals()->find($id);
        if ($approval === null && isset($conversation?->waitingFor()[$id])) {
            // It has lapsed, which counts as denied.
            return $this->goOn($model, $conversation->abandon());
        }
        // Whoever made the call decides on it, and nobody else.
        if ($approval === null || $approval->user !== Visitor::id()) {
            return response()->json(['error' => 'There is no such call.'], 404);
        }
        try {
            $request->input('approve') === true
                ? Pillion::approvals()->approve($id, by: $approval->user)
                : Pillion::approvals()->deny($id, by: $approval->user);
        } catch (NotFoundException) {
            return response()->json(['error' => 'That has been decided.'], 409);
        }
        return $conversation === null ? response()->json([]) : $this->goOn($model, $conversation);
    }

    private function goOn(string $model, Conversation $conversation): JsonResponse
    {
        $this->run($model, $conversation);
        return response()->json([
            'text' => $conversation->text(),
            'waiting' => self::waiting($conversation),
            'messages' => $conversation->messages(),
        ]);
    }

    private function run(string $model, Conversation $conversation): void
    {
        // What the provider calls it.
        $upstream = config('pillion.models')[$model]['upstream'] ?? $model;
        try {
            $conversation->run(
                Pillion::forModel($model),
                fn (array $messages, array $tools) => $this->llm->complete($upstream, $messages, $tools),
            );
        } finally {
            // Also when the model has failed: a tool that has run must not run again.
            session(['model' => $model, 'conversation' => base64_encode(serialize($conversation))]);
        }
    }

    /** One of the configured models: who asks for another would choose what it may do. */
    private function model(mixed $name): string
    {
        abort_unless(is_string($name) && in_array($name, $this->models->names(), true), 422, 'There is no such model.');
        return $name;
    }

    /** @return list<array{id: string, tool: string, arguments: mixed}> the calls that can be decided on */
    private static function waiting(Conversation $conversation): array
    {
        $waiting = [];
        foreach ($conversation->waitingFor() as $id => $call) {
            if (Pillion::approvals()->find($id)?->isPending()) {
                $waiting[] = ['id' => $id, 'tool' => $call->name, 'arguments' => $call->arguments];
            }
        }
        return $waiting;
    }

    /** Whether somebody has decided elsewhere, in the console for example. */
    private static function isDecided(Conversation $conversation): bool
    {
        $approvals = array_map(fn (string $id) => Pillion::approvals()->find($id), array_keys($conversation->waitingFor()));
        return $approvals !== [] && !in_array(null, $approvals, true) && self::waiting($conversation) === [];
    }

    /** The conversation of this session, if it is one with that model. */
    private function conversation(string $model): ?Conversation
    {
        $kept = session('conversation');
        return $kept === null || session('model') !== $model ? null : unserialize(base64_decode($kept));
    }
}
