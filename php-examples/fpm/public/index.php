<?php

declare(strict_types=1);

/*
 * Each request makes one tool call: `?tool=get-sum&a=2&b=40`. The worker owns the session with the MCP
 * server: the worker's first request opens the session, and later requests reuse the session.
 */

use Pillion\Exception\PillionException;
use Pillion\Exception\TimeoutException;
use Pillion\MCPSSEClient;

header('Content-Type: application/json');
$tool = (string) ($_GET['tool'] ?? 'get-sum');
$queryArguments = array_diff_key($_GET, ['tool' => null]);
$arguments = array_map(fn (mixed $value) => is_numeric($value) ? $value + 0 : $value, $queryArguments);

$startedAt = hrtime(true);
try {
    $client = new MCPSSEClient((string) getenv('MCP_URL'), timeout: 10);
    $body = ['result' => $client->callTool($tool, $arguments)];
} catch (PillionException $exception) {
    http_response_code($exception instanceof TimeoutException ? 504 : 502);
    $body = ['error' => $exception->getMessage(), 'code' => $exception->errorCode];
}
echo json_encode($body + [
    'worker' => getmypid(),
    'milliseconds' => round((hrtime(true) - $startedAt) / 1e6, 2),
], JSON_UNESCAPED_SLASHES | JSON_UNESCAPED_UNICODE), "\n";
