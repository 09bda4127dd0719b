<?php

/**
 * The main features step by step: native classes call tools on real MCP servers, then the same calls go
 * through the sidecar's socket.
 *
 *   php -d extension=pillion.so demo.php STREAMABLE_URL LEGACY_SSE_URL SOCKET
 *
 * scripts/demo starts the servers and the sidecar and runs this.
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

function heading(string $text): void
{
    echo stream_isatty(STDOUT) ? "\n\e[1m$text\e[0m\n" : "\n$text\n";
}

/** Prints a call, its result and its duration. */
function show(string $call, callable $run): void
{
    $start = hrtime(true);
    try {
        $result = $run();
    } catch (PillionException $e) {
        $result = ['exception' => $e::class, 'code' => $e->errorCode, 'message' => $e->getMessage()];
    }
    $milliseconds = (hrtime(true) - $start) / 1e6;
    $text = json_encode($result, JSON_UNESCAPED_UNICODE | JSON_UNESCAPED_SLASHES);
    if (strlen($text) > 180) {
        $text = mb_strcut($text, 0, 180) . '…';
    }
    printf("  %s\n    → %s   (%.1f ms)\n", $call, $text, $milliseconds);
}

heading("1. A PHP script calls a real MCP server (npm server-everything, Streamable HTTP)");
$everything = new MCPSSEClient($everythingUrl);
show('listTools(): names', fn () => array_column($everything->listTools(), 'name'));
show("callTool('echo', ['message' => 'Grüße'])", fn () => $everything->callTool('echo', ['message' => 'Grüße']));
show("callTool('get-sum', ['a' => 2, 'b' => 40])   (warm)", fn () => $everything->callTool('get-sum', ['a' => 2, 'b' => 40]));

heading("2. The same class, another dialect (PyPI mcp, legacy HTTP+SSE): nothing to configure");
$python = new MCPSSEClient($pythonUrl, timeout: 10);
show("callTool('add', ['a' => 2, 'b' => 40])", fn () => $python->callTool('add', ['a' => 2, 'b' => 40]));
show("callTool('fail')   (the tool raises)", fn () => $python->callTool('fail'));
show("request('no/such/method')   (a JSON-RPC error)", fn () => $python->request('no/such/method'));

heading("3. Built-in, PHP-written and MCP tools behind one registry, run side by side");
$registry = ToolRegistry::withBuiltins();
$registry->register(
    new ToolDefinition(
        name: 'shout',
        description: 'Says it louder',
        parameters: ['type' => 'object', 'properties' => ['text' => ['type' => 'string']], 'required' => ['text']],
    ),
    fn (array $arguments) => mb_strtoupper($arguments['text']) . '!',
);
$registry->registerMcpServer($python, prefix: 'py_');
$executor = new ToolExecutor($registry);
$calls = [
    new ToolCall(id: '1', name: 'calculator', arguments: ['expression' => '47.50 * 0.15']),
    new ToolCall(id: '2', name: 'shout', arguments: ['text' => 'hello']),
    new ToolCall(id: '3', name: 'py_slow', arguments: ['seconds' => 0.5]),
    new ToolCall(id: '4', name: 'py_slow', arguments: ['seconds' => 0.5]),
    new ToolCall(id: '5', name: 'roll_dice', arguments: '{"notation": "4d6kh3", "seed": 7}'),
    new ToolCall(id: '6', name: 'calculator', arguments: ['expression' => '1/0']),
];
show('executeParallel(6 calls), two of which wait 0.5 s', fn () => array_map(
    fn ($result) => $result->success ? $result->toMessage() : $result->error,
    $executor->executeParallel($calls),
));

heading("4. Which model sees which tool (the `mcp` flag)");
$names = fn (array $tools) => array_map(fn ($tool) => $tool->getName(), array_values($tools));
show('a model with function calling only', fn () => $names($registry->getAvailableForModel(
    ['tools' => ['function_calling' => true]],
)));
show("a model with 'mcp' and a list of tools", fn () => $names($registry->getAvailableForModel(
    ['tools' => ['function_calling' => true, 'mcp' => true, 'enabled_tools' => ['py_add', 'calculator']]],
)));

heading("5. The same through the sidecar's Unix socket: sessions stay warm for every worker");
$sidecar = new Sidecar($socket);
show('listTools(): how many', fn () => count($sidecar->listTools()));
show("callTool('python_add', ['a' => 2, 'b' => 40])", fn () => $sidecar->callTool('python_add', ['a' => 2, 'b' => 40]));
show("callTool('everything_echo', ...)", fn () => $sidecar->callTool('everything_echo', ['message' => 'through the socket']));
show("callTool('calculator', ...)", fn () => $sidecar->callTool('calculator', ['expression' => '2**10']));
show("callTool('nope')", fn () => $sidecar->callTool('nope'));
