<?php

declare(strict_types=1);

/*
 * A fake language model: an OpenAI-compatible endpoint that calls tools by simple rules, for tests and for
 * trying the example without a key.
 *
 *   php -S 127.0.0.1:8081 llm/fake.php
 */

$request = json_decode((string) file_get_contents('php://input'), true);
if (!is_array($request) || !isset($request['messages'])) {
    http_response_code(400);
    header('Content-Type: application/json');
    exit('{"error": {"message": "no messages"}}');
}

/**
 * Returns the next step of the model: the name of a tool with arguments, or the text of a response.
 */
$chooseStep = static function (array $request): string|array {
    $lastMessage = end($request['messages']);
    if ($lastMessage['role'] === 'tool') {
        return 'The tool returned: ' . $lastMessage['content'];
    }
    $text = strtolower((string) $lastMessage['content']);
    preg_match_all('/\d+/', $text, $matches);
    $numbers = array_map('intval', $matches[0]);
    $toolCall = match (true) {
        str_contains($text, 'refund') => ['refund_order', ['order' => $numbers[0] ?? 0]],
        str_contains($text, 'order') => ['order_status', ['order' => $numbers[0] ?? 0]],
        str_contains($text, 'sum') => ['everything_get-sum', ['a' => $numbers[0] ?? 0, 'b' => $numbers[1] ?? 0]],
        default => null,
    };
    $offeredNames = array_map(fn (array $tool) => $tool['function']['name'], $request['tools'] ?? []);
    if ($toolCall === null) {
        return $offeredNames === [] ? 'I have no tools.' : 'I can use: ' . implode(', ', $offeredNames) . '.';
    }
    return in_array($toolCall[0], $offeredNames, true) ? $toolCall : "I have no tool $toolCall[0].";
};

$step = $chooseStep($request);
$finishReason = is_string($step) ? 'stop' : 'tool_calls';
$message = is_string($step)
    ? ['role' => 'assistant', 'content' => $step]
    : ['role' => 'assistant', 'content' => null, 'tool_calls' => [[
        'id' => 'call_' . bin2hex(random_bytes(6)),
        'type' => 'function',
        'function' => ['name' => $step[0], 'arguments' => json_encode($step[1])],
    ]]];
$body = ['id' => 'chatcmpl-1', 'model' => $request['model'] ?? ''];
if (!($request['stream'] ?? false)) {
    header('Content-Type: application/json');
    echo json_encode($body + ['object' => 'chat.completion', 'choices' => [['index' => 0, 'message' => $message, 'finish_reason' => $finishReason]]]);
    return;
}
// Streams a text response word by word, and a tool call in one piece.
$deltas = is_string($step)
    ? array_map(fn (string $word) => ['content' => $word], preg_split('/(?<= )/', $step))
    : [['tool_calls' => array_map(fn (array $call) => ['index' => 0] + $call, $message['tool_calls'])]];
header('Content-Type: text/event-stream');
foreach ([...$deltas, []] as $index => $delta) {
    $choice = ['index' => 0, 'delta' => (object) $delta, 'finish_reason' => $index === count($deltas) ? $finishReason : null];
    echo 'data: ', json_encode($body + ['object' => 'chat.completion.chunk', 'choices' => [$choice]]), "\n\n";
    flush();
}
echo "data: [DONE]\n\n";
