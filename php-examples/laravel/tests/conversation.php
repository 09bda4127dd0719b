<?php

declare(strict_types=1);

/*
 * Sends requests to the running application like a browser, and checks the answers. `run --check` starts everything
 * and runs this script.
 *
 *   php tests/conversation.php http://127.0.0.1:8080
 */

$baseUrl = $argv[1] ?? exit("Usage: php tests/conversation.php URL\n");
$curl = curl_init();
curl_setopt_array($curl, [CURLOPT_RETURNTRANSFER => true, CURLOPT_COOKIEFILE => '', CURLOPT_TIMEOUT => 60]);

$page = (function () use ($curl, $baseUrl): string {
    curl_setopt($curl, CURLOPT_URL, $baseUrl . '/');
    return (string) curl_exec($curl);
})();
preg_match('/X-CSRF-TOKEN\': "(\w+)"/', $page, $token) || exit("The page has no CSRF token:\n$page\n");

$request = static function (string $path, ?array $body = null) use ($curl, $baseUrl, $token): array {
    curl_setopt_array($curl, [
        CURLOPT_URL => $baseUrl . $path,
        CURLOPT_HTTPGET => $body === null,
        CURLOPT_HTTPHEADER => ['Content-Type: application/json', 'Accept: application/json', "X-CSRF-TOKEN: $token[1]"],
    ]);
    if ($body !== null) {
        curl_setopt($curl, CURLOPT_POSTFIELDS, json_encode($body));
    }
    $answer = (string) curl_exec($curl);
    // A stream is summarized by its last event, which contains the answer.
    preg_match_all('/^event: (\w+)\ndata: (.*)$/m', $answer, $events);
    $last = $events[1] === [] ? $answer : (string) end($events[2]);
    return (json_decode($last, true) ?? exit("$path answered:\n" . substr($answer, 0, 2000) . "\n")) + ['events' => $events[1]];
};
$expect = static function (string $expectation, bool $isCorrect, mixed $actual): void {
    echo $isCorrect ? '  ok    ' : '  WRONG ', $expectation, $isCorrect ? '' : ': ' . json_encode($actual), "\n";
    $isCorrect || exit(1);
};

foreach (['with-mcp' => true, 'without-mcp' => false] as $model => $seesTool) {
    $tools = array_diff_key($request("/tools?model=$model"), ['events' => 0]);
    $expect("$model sees " . implode(', ', $tools), in_array('everything_get-sum', $tools, true) === $seesTool, $tools);
}
$answer = $request('/chat', ['model' => 'with-mcp', 'message' => 'What is the sum of 2 and 40?']);
$expect('a tool of the MCP server: ' . ($answer['text'] ?? ''), str_contains($answer['text'] ?? '', '42'), $answer);
$answer = $request('/chat', ['model' => 'with-mcp', 'message' => 'Where is order 7?']);
$expect('a tool in PHP: ' . ($answer['text'] ?? ''), str_contains($answer['text'] ?? '', 'on its way'), $answer);
$expect('the answer is streamed', array_count_values($answer['events'])['delta'] > 1 && in_array('tool_started', $answer['events'], true), $answer);
$answer = $request('/chat', ['model' => 'without-mcp', 'message' => 'What is the sum of 2 and 40?']);
$expect('without the flag: ' . ($answer['text'] ?? ''), $answer['text'] === 'I have no tool everything_get-sum.', $answer);
foreach ([[true, 'Order 7 is refunded'], [false, 'was denied']] as [$approve, $text]) {
    $answer = $request('/chat', ['model' => 'with-mcp', 'message' => 'Refund order 7']);
    $id = $answer['waiting'][0]['id'] ?? '';
    $expect('a refund waits', $answer['text'] === null && $id !== '', $answer);
    $answer = $request("/approvals/$id", ['approve' => $approve]);
    $expect($approve ? 'approved: ' . $answer['text'] : 'denied: ' . $answer['text'], str_contains($answer['text'] ?? '', $text), $answer);
}
