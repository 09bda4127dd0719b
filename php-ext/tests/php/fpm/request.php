<?php

// A request of FpmTest: the query selects the action, and the response is JSON.

use Pillion\MCPSSEClient;
use Pillion\ToolCall;
use Pillion\ToolDefinition;
use Pillion\ToolExecutor;
use Pillion\ToolRegistry;

$client = new MCPSSEClient($_GET['url'], timeout: 10);
$registry = ToolRegistry::withBuiltins();
$executor = new ToolExecutor($registry);
$registry->register(new ToolDefinition('ends', 'Ends the request'), fn () => match ($_GET['how'] ?? '') {
    'exit' => exit('left'),
    'fatal' => trigger_error('fatal on purpose', E_USER_ERROR),
    'exception' => throw new DomainException('thrown on purpose'),
    default => 'goes on',
});
$result = $executor->executeParallel([new ToolCall('1', 'ends'), new ToolCall('2', 'calculator', ['expression' => '6*7'])]);
echo json_encode([
    'process' => getmypid(),
    'connection' => $client->callTool('connection')['connection'],
    'ends' => $result[0]->error ?? $result[0]->result,
    'calculator' => $result[1]->result,
]);
