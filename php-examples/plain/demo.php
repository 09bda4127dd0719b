<?php

/**
 * The main features step by step: native classes call tools on real MCP servers, then the same calls go
 * through the sidecar's socket.
 *
 *   php -d extension=pillion.so demo.php STREAMABLE_URL LEGACY_SSE_URL SOCKET
 *
 * scripts/demo starts the servers and the sidecar, and runs this script.
 */

declare(strict_types=1);

use Pillion\Exception\PillionException;
use Pillion\MCPSSEClient;
use Pillion\Sidecar;
use Pillion\ToolCall;
use Pillion\ToolDefinition;
use Pillion\ToolExecutor;
use Pillion\ToolRegistry;

[, $everythingUrl, $pythonUrl, $socket] = $argv + [1 => '', 2 => '', 3 => ''];

function printHeading(string $text): void
{
    echo stream_isatty(STDOUT) ? "\n\e[1m$text\e[0m\n" : "\n$text\n";
}

/** Runs a call, and prints the call, its result and its duration. */
function printCall(string $call, callable $run): void
{
    $startedAt = hrtime(true);
    try {
        $result = $run();
    } catch (PillionException $exception) {
        $result = ['exception' => $exception::class, 'code' => $exception->errorCode, 'message' => $exception->getMessage()];
    }
    $milliseconds = (hrtime(true) - $startedAt) / 1e6;
    $json = json_encode($result, JSON_UNESCAPED_UNICODE | JSON_UNESCAPED_SLASHES);
    $shortJson = strlen($json) > 180 ? mb_strcut($json, 0, 180) . '…' : $json;
    printf("  %s\n    → %s   (%.1f ms)\n", $call, $shortJson, $milliseconds);
}

printHeading("1. A PHP script calls a real MCP server (npm server-everything, Streamable HTTP)");
$everythingClient = new MCPSSEClient($everythingUrl);
printCall('listTools(): names', fn () => array_column($everythingClient->listTools(), 'name'));
printCall("callTool('echo', ['message' => 'Grüße'])", fn () => $everythingClient->callTool('echo', ['message' => 'Grüße']));
printCall("callTool('get-sum', ['a' => 2, 'b' => 40])   (on the open session)", fn () => $everythingClient->callTool('get-sum', ['a' => 2, 'b' => 40]));

printHeading("2. The same class with another transport (PyPI mcp, legacy HTTP+SSE), without configuration");
$pythonClient = new MCPSSEClient($pythonUrl, timeout: 10);
printCall("callTool('add', ['a' => 2, 'b' => 40])", fn () => $pythonClient->callTool('add', ['a' => 2, 'b' => 40]));
printCall("callTool('fail')   (the tool raises)", fn () => $pythonClient->callTool('fail'));
printCall("request('no/such/method')   (a JSON-RPC error)", fn () => $pythonClient->request('no/such/method'));

printHeading("3. Built-in tools, PHP tools and MCP tools in one registry, run concurrently");
$registry = ToolRegistry::withBuiltins();
$registry->register(
    new ToolDefinition(
        name: 'shout',
        description: 'Says it louder',
        parameters: ['type' => 'object', 'properties' => ['text' => ['type' => 'string']], 'required' => ['text']],
    ),
    fn (array $arguments) => mb_strtoupper($arguments['text']) . '!',
);
$registry->registerMcpServer($pythonClient, prefix: 'py_');
$executor = new ToolExecutor($registry);
$calls = [
    new ToolCall(id: '1', name: 'calculator', arguments: ['expression' => '47.50 * 0.15']),
    new ToolCall(id: '2', name: 'shout', arguments: ['text' => 'hello']),
    new ToolCall(id: '3', name: 'py_slow', arguments: ['seconds' => 0.5]),
    new ToolCall(id: '4', name: 'py_slow', arguments: ['seconds' => 0.5]),
    new ToolCall(id: '5', name: 'roll_dice', arguments: '{"notation": "4d6kh3", "seed": 7}'),
    new ToolCall(id: '6', name: 'calculator', arguments: ['expression' => '1/0']),
];
printCall('executeParallel(6 calls), two of which wait 0.5 s', fn () => array_map(
    fn ($result) => $result->success ? $result->toMessage() : $result->error,
    $executor->executeParallel($calls),
));

printHeading("4. Which model sees which tool (the `mcp` flag)");
$readNames = fn (array $tools) => array_map(fn ($tool) => $tool->getName(), array_values($tools));
printCall('a model with function calling only', fn () => $readNames($registry->getAvailableForModel(
    ['tools' => ['function_calling' => true]],
)));
printCall("a model with 'mcp' and a list of tools", fn () => $readNames($registry->getAvailableForModel(
    ['tools' => ['function_calling' => true, 'mcp' => true, 'enabled_tools' => ['py_add', 'calculator']]],
)));

printHeading("5. The same calls through the sidecar's Unix socket: all workers share open sessions");
$sidecar = new Sidecar($socket);
printCall('listTools(): number of tools', fn () => count($sidecar->listTools()));
printCall("callTool('python_add', ['a' => 2, 'b' => 40])", fn () => $sidecar->callTool('python_add', ['a' => 2, 'b' => 40]));
printCall("callTool('everything_echo', ...)", fn () => $sidecar->callTool('everything_echo', ['message' => 'through the socket']));
printCall("callTool('calculator', ...)", fn () => $sidecar->callTool('calculator', ['expression' => '2**10']));
printCall("callTool('nope')", fn () => $sidecar->callTool('nope'));
