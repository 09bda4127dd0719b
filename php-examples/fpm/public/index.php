<?php

declare(strict_types=1);

/*
 * Each request makes one tool call: `?tool=get-sum&a=2&b=40`. The worker owns the session with the MCP
 * server: the worker's first request opens the session, later requests reuse it.
 */

use Pillion\Exception\PillionException;
use Pillion\Exception\TimeoutException;
use Pillion\MCPSSEClient;

header('Content-Type: application/json');
$arguments = $_GET;
$tool = (string) ($arguments['tool'] ?? 'get-sum');
unset($arguments['tool']);
$arguments = array_map(fn (mixed $value) => is_numeric($value) ? $value + 0 : $value, $arguments);

$started = hrtime(true);
try {
    $client = new MCPSSEClient((string) getenv('MCP_URL'), timeout: 10);
    $answer = ['result' => $client->callTool($tool, $arguments)];
} catch (PillionException $e) {
    http_response_code($e instanceof TimeoutException ? 504 : 502);
    $answer = ['error' => $e->getMessage(), 'code' => $e->errorCode];
}
echo json_encode($answer + [
    'worker' => getmypid(),
    'milliseconds' => round((hrtime(true) - $started) / 1e6, 2),
], JSON_UNESCAPED_SLASHES | JSON_UNESCAPED_UNICODE), "\n";
