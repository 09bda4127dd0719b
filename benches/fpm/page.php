<?php

declare(strict_types=1);

/*
 * The page that benches/fpm.php requests: each request calls a tool in one way. The response is the text of the
 * tool's result.
 */

use Pillion\McpClient;
use Pillion\MCPSSEClient;
use Pillion\Sidecar;

/** Sends a request like a program without the extension: with a new handle and a session ID from a file. */
function post(CurlHandle $curl, string $url, string $revision, string $session, array $message, ?string &$newSession = null): ?array
{
    $headers = ['Content-Type: application/json', 'Accept: application/json, text/event-stream', "MCP-Protocol-Version: $revision"];
    curl_setopt_array($curl, [
        CURLOPT_URL => $url,
        CURLOPT_POSTFIELDS => json_encode(['jsonrpc' => '2.0'] + $message),
        CURLOPT_HTTPHEADER => $session === '' ? $headers : [...$headers, "Mcp-Session-Id: $session"],
        CURLOPT_RETURNTRANSFER => true,
        CURLOPT_TIMEOUT => 30,
        CURLOPT_HEADERFUNCTION => function ($curl, string $line) use (&$newSession): int {
            if (stripos($line, 'mcp-session-id:') === 0) {
                $newSession = trim(substr($line, 15));
            }
            return strlen($line);
        },
    ]);
    $body = (string) curl_exec($curl);
    if (preg_match('/^data: *(\{.*)$/m', $body, $event)) {
        $body = $event[1];
    }
    return json_decode($body, true);
}

function curl_call(string $url, string $revision, string $tool, array $arguments): array
{
    $cache = sys_get_temp_dir() . '/pillion-bench-' . md5($url . $revision);
    $session = is_file($cache) ? (string) file_get_contents($cache) : '';
    $curl = curl_init();
    if ($session === '') {
        $info = ['protocolVersion' => $revision, 'capabilities' => new stdClass(), 'clientInfo' => ['name' => 'curl', 'version' => '1']];
        post($curl, $url, $revision, '', ['id' => 1, 'method' => 'initialize', 'params' => $info], $session);
        post($curl, $url, $revision, $session, ['method' => 'notifications/initialized']);
        file_put_contents($cache, $session);
    }
    return post($curl, $url, $revision, $session, ['id' => 2, 'method' => 'tools/call', 'params' => ['name' => $tool, 'arguments' => $arguments]])['result'];
}

/** Starts a stdio server for the request and calls the tool. */
function spawn_call(array $command, string $tool, array $arguments): array
{
    $process = proc_open($command, [['pipe', 'r'], ['pipe', 'w'], ['file', '/dev/null', 'w']], $pipes);
    $request = function (array $message) use ($pipes): array {
        fwrite($pipes[0], json_encode(['jsonrpc' => '2.0'] + $message) . "\n");
        do {
            $response = json_decode((string) fgets($pipes[1]), true);
        } while (($response['id'] ?? null) !== $message['id']);
        return $response['result'];
    };
    $info = ['protocolVersion' => '2025-11-25', 'capabilities' => new stdClass(), 'clientInfo' => ['name' => 'php', 'version' => '1']];
    $request(['id' => 1, 'method' => 'initialize', 'params' => $info]);
    fwrite($pipes[0], '{"jsonrpc":"2.0","method":"notifications/initialized"}' . "\n");
    $result = $request(['id' => 2, 'method' => 'tools/call', 'params' => ['name' => $tool, 'arguments' => $arguments]]);
    array_map('fclose', $pipes);
    proc_close($process);
    return $result;
}

$url = $_GET['url'] ?? '';
$revision = $_GET['revision'] ?? '2025-11-25';
$hello = ['message' => 'hello'];
$long = ['name' => 'trigger-long-running-operation', 'arguments' => ['duration' => 0.1, 'steps' => 1]];
$result = match ($_GET['way']) {
    'nothing' => ['content' => [['text' => 'nothing']]],
    'extension' => (new MCPSSEClient($url, options: ['protocol_version' => $revision]))->callTool('echo', $hello),
    'curl' => curl_call($url, $revision, 'echo', $hello),
    'sidecar' => ['content' => [['text' => (new Sidecar($_GET['socket']))->execute(['id' => '1', 'name' => $_GET['tool'], 'arguments' => $hello])->text()]]],
    'spawn' => spawn_call(json_decode($_GET['command'], true), 'echo', $hello),
    'one' => ['content' => [['text' => (new McpClient($url))->callTool($long['name'], $long['arguments'])->text()]]],
    'eight' => ['content' => [['text' => implode('', array_map(fn ($result) => substr($result->text(), 0, 4), (new McpClient($url))->callTools(array_fill(0, 8, $long))))]]],
};
echo $result['content'][0]['text'];
