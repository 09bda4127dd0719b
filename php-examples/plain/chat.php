<?php

/**
 * A chat in the terminal: a language model uses tools, some of them defined in this file. Each input line is
 * a message; calls that need approval are confirmed interactively.
 *
 *   LLM_URL=http://127.0.0.1:11434/v1 LLM_MODEL=llama3.2 php -d extension=pillion.so chat.php
 *
 * LLM_KEY is the provider's API key, if required. With a socket path as the argument, the chat runs
 * in the sidecar, with the sidecar's models and tools. A chat in the sidecar also works with the
 * library in plain PHP.
 */

declare(strict_types=1);

use Pillion\ChatAnswer;
use Pillion\Sidecar;
use Pillion\ToolAwareChat;
use Pillion\ToolDefinition;
use Pillion\ToolExecutor;
use Pillion\ToolRegistry;

function chatInProcess(): ToolAwareChat
{
    $registry = ToolRegistry::withBuiltins();
    $registry->register(
        new ToolDefinition('note', 'Writes a note down', [['name' => 'text', 'type' => 'string']], requiresConfirmation: true),
        fn (array $arguments) => "Noted: {$arguments['text']}",
    );
    return new ToolAwareChat(
        tools: new ToolExecutor($registry),
        model: [
            'base_url' => (string) getenv('LLM_URL'),
            'model' => getenv('LLM_MODEL') ?: 'fake',
            'api_key' => getenv('LLM_KEY') ?: null,
            'tools' => ['function_calling' => true],
        ],
    );
}

/** Sends the message and prints the events. */
function sendMessage(ToolAwareChat $chat, ?string $message, ?string $state, array $context = []): ChatAnswer
{
    $stream = $chat->stream($message, $state, $context);
    foreach ($stream as $event) {
        echo match ($event->type) {
            'delta' => $event->text,
            'status' => "· $event->text\n",
            'tool_finished' => "= {$event->data['name']}: {$event->data['content']}\n",
            default => '',
        };
    }
    echo "\n";
    return $stream->getReturn();
}

$sidecar = isset($argv[1]) ? new Sidecar($argv[1]) : null;
$chat = $sidecar === null ? chatInProcess() : new ToolAwareChat($sidecar);
$state = null;
while (($line = fgets(STDIN)) !== false) {
    echo '> ', $line = trim($line), "\n";
    $answer = sendMessage($chat, $line, $state);
    while ($answer->status === 'awaiting_approval') {
        $context = ['approved' => [], 'denied' => []];
        foreach ($answer->approvals as $approval) {
            echo "Run {$approval['tool']} ", json_encode($approval['arguments']), '? [y/N] ';
            $isApproved = trim((string) fgets(STDIN)) === 'y';
            echo $isApproved ? "yes\n" : "no\n";
            $isApproved ? $sidecar?->approve($approval['id']) : $sidecar?->deny($approval['id']);
            $context[$isApproved ? 'approved' : 'denied'][] = $approval['id'];
        }
        $answer = sendMessage($chat, null, $answer->state, $sidecar === null ? $context : []);
    }
    if (!$answer->success) {
        fwrite(STDERR, "$answer->error ($answer->errorCode)\n");
        exit(1);
    }
    $state = $answer->state;
}
