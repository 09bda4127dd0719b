<?php

declare(strict_types=1);

namespace App\Http\Controllers;

use App\Chat\LanguageModel;
use App\Chat\Visitor;
use Illuminate\Contracts\View\View;
use Illuminate\Http\JsonResponse;
use Illuminate\Http\Request;
use Pillion\Laravel\Chat\Conversation;
use Pillion\Laravel\Facades\Pillion;
use Pillion\Laravel\Models\ModelDirectory;

class ChatController
{
    public function __construct(private readonly LanguageModel $llm)
    {
    }

    public function show(ModelDirectory $models): View
    {
        return view('chat', ['models' => $models->names()]);
    }

    /** What the model of the query sees. */
    public function tools(Request $request): JsonResponse
    {
        return response()->json(Pillion::forModel((string) $request->query('model'))->names());
    }

    /** The user says something. */
    public function say(Request $request): JsonResponse
    {
        $model = (string) $request->input('model');
        $message = ['role' => 'user', 'content' => (string) $request->input('message')];
        $conversation = $this->conversation($model);
        if ($conversation !== null && $conversation->isWaiting()) {
            return response()->json(['error' => 'Approve or deny the call first.'], 409);
        }
        return $this->goOn($model, $conversation?->say($message) ?? Pillion::forModel($model)->conversation([$message]));
    }

    /** The user allows a call, or does not. */
    public function decide(Request $request, string $id): JsonResponse
    {
        $approval = Pillion::approvals()->find($id);
        // Whoever made the call decides on it, and nobody else.
        if ($approval === null || $approval->user !== Visitor::id()) {
            return response()->json(['error' => 'There is no such call.'], 404);
        }
        $request->input('approve') === true
            ? Pillion::approvals()->approve($id, by: $approval->user)
            : Pillion::approvals()->deny($id, by: $approval->user);
        $model = (string) $request->session()->get('model');
        $conversation = $this->conversation($model);
        return $conversation === null ? response()->json([]) : $this->goOn($model, $conversation);
    }

    private function goOn(string $model, Conversation $conversation): JsonResponse
    {
        $conversation->run(
            Pillion::forModel($model),
            fn (array $messages, array $tools) => $this->llm->complete($model, $messages, $tools),
        );
        session(['model' => $model, 'conversation' => base64_encode(serialize($conversation))]);
        $waiting = [];
        foreach ($conversation->waitingFor() as $id => $call) {
            $waiting[] = ['id' => $id, 'tool' => $call->name, 'arguments' => $call->arguments];
        }
        return response()->json([
            'text' => $conversation->text(),
            'waiting' => $waiting,
            'messages' => $conversation->messages(),
        ]);
    }

    /** The conversation of this session, if it is one with that model. */
    private function conversation(string $model): ?Conversation
    {
        $kept = session('conversation');
        return $kept === null || session('model') !== $model ? null : unserialize(base64_decode($kept));
    }
}
