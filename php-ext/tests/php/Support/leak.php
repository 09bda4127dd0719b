<?php

declare(strict_types=1);

/*
 * Makes calls of one kind and prints the growth of the process after a warm-up, as JSON:
 *
 *   php leak.php <kind> <calls> <URL of the fake MCP server> <of that with sessions> <socket of the sidecar> <URL of the fake model>
 */

use Pillion\McpClient;
use Pillion\MCPSSEClient;
use Pillion\Sidecar;
use Pillion\ToolAwareChat;
use Pillion\ToolCall;
use Pillion\ToolDefinition;
use Pillion\ToolExecutor;
use Pillion\ToolRegistry;

[, $kind, $calls, $url, $sessions, $socket, $llm] = $argv;

/** Runs code that has to fail. */
$fails = function (callable $call): void {
    try {
        $call();
    } catch (Exception) {
        return;
    }
    throw new LogicException('It did not fail');
};
$client = new MCPSSEClient($url, 20);
$unreachable = new MCPSSEClient('http://127.0.0.1:1/sse', 20);
$sidecar = new Sidecar($socket);
$registry = ToolRegistry::withBuiltins();
$registry->register(new ToolDefinition('php', 'PHP', [['name' => 'list', 'type' => 'array']]), fn (array $a) => $a);
$registry->register(new ToolDefinition('throws', 'Throws'), fn () => throw new Exception(str_repeat('x', 1000)));
$registry->register(new ToolDefinition('calls', 'Calls'), fn () => $registry->execute('throws', [], 'in')->error);
$executor = new ToolExecutor($registry);
$list = range(1, 50);
$number = 0;

$kinds = [
    'mcp' => fn () => $client->callTool('echo', ['list' => $list]),
    'mcp failures' => function () use ($client, $unreachable, $fails): void {
        $fails(fn () => $client->callTool('rpc_error'));
        $fails(fn () => $client->callTool('status', ['status' => 500]));
        $fails(fn () => $client->callTool('no_answer'));
        $fails(fn () => $client->callTool('x', ['x' => "\xff"]));
        $fails(fn () => $unreachable->callTool('echo'));
        $fails(fn () => new MCPSSEClient('x', options: ['y' => 1]));
    },
    'mcp time limits' => fn () => $fails(fn () => (new MCPSSEClient($url, 0.01))->callTool('slow', ['seconds' => 2])),
    'mcp users' => function () use ($sessions, &$number): void {
        $number++;
        (new MCPSSEClient($sessions, 20, "user-$number"))->callTool('who');
    },
    'mcp client' => function () use ($sessions, $fails): void {
        $client = new McpClient($sessions, ['timeout' => 20]);
        $client->onSampling(fn () => $client);
        $client->request('tools/call', ['name' => 'who']);
        $fails(fn () => $client->request('unknown'));
    },
    'mcp registries' => function () use ($client): void {
        $registry = new ToolRegistry();
        $registry->registerMcpServer($client);
        $registry->execute('echo', [], '1');
    },
    'tools' => fn () => $executor->executeParallel([
        new ToolCall('1', 'php', ['list' => $list]),
        new ToolCall('2', 'calculator', ['expression' => '1+1']),
        new ToolCall('3', 'calls'),
    ]),
    'tool failures' => fn () => $executor->executeAll([
        new ToolCall('1', 'throws'),
        new ToolCall('2', 'unknown'),
        new ToolCall('3', 'php', ['list' => 'no list']),
    ]),
    'cycles' => function (): void {
        $registry = ToolRegistry::withBuiltins();
        $executor = new ToolExecutor($registry);
        $registry->register(new ToolDefinition('self', 'Holds all'), fn () => count([$registry, $executor]));
        if ($executor->execute(new ToolCall('1', 'self'))->result !== 2) {
            throw new LogicException('The tool did not run');
        }
    },
    'chats' => function () use ($executor, $llm): void {
        $model = ['base_url' => $llm, 'model' => 'fake', 'api_key' => fn () => 'key', 'tools' => ['function_calling' => true]];
        $chat = new ToolAwareChat($executor, $model, ['max_tool_rounds' => 3]);
        $state = $chat->send('calls {}')->state;
        foreach ($chat->stream('calculator {"expression": "6*7"}', $state) as $event) {
            if ($event->type === 'tool_finished') {
                break;
            }
        }
        $chat->stream('Hello', $state)->getReturn();
    },
    'chats in the sidecar' => function () use ($sidecar): void {
        $chat = new ToolAwareChat($sidecar);
        $state = $chat->stream('calculator {"expression": "6*7"}')->getReturn()->state;
        foreach ($chat->stream('Hello', $state) as $event) {
            break;
        }
    },
    'sidecar' => fn () => $sidecar->callTool('calculator', ['expression' => '6*7']),
    'sidecar failures' => function () use ($sidecar, $fails): void {
        $fails(fn () => $sidecar->callTool('unknown'));
        $fails(fn () => $sidecar->callTool('calculator', ['expression' => '1/0']));
        $fails(fn () => (new Sidecar('/no/such/socket'))->callTool('calculator'));
    },
];

/**
 * @param array{descriptors: int, threads: int}|null $before
 *
 * @return array{memory: int, resident_kb: int, descriptors: int, threads: int}
 */
$measure = function (?array $before = null): array {
    // Background cleanup takes a moment, longer on a busy machine.
    for ($tries = 0; $tries < 40; $tries++) {
        usleep(500_000);
        gc_collect_cycles();
        $status = (string) file_get_contents('/proc/self/status');
        preg_match('/VmRSS:\s+(\d+).*Threads:\s+(\d+)/s', $status, $found);
        $now = [
            'memory' => memory_get_usage(),
            'resident_kb' => (int) $found[1],
            'descriptors' => count((array) scandir('/proc/self/fd')),
            'threads' => (int) $found[2],
        ];
        if ($before === null || max($now['descriptors'] - $before['descriptors'], $now['threads'] - $before['threads']) <= 10) {
            break;
        }
    }
    return $now;
};

$call = $kinds[$kind];
for ($i = 0; $i < max(100, $calls / 5); $i++) {
    $call();
}
$before = $measure();
for ($i = 0; $i < $calls; $i++) {
    $call();
}
$after = $measure($before);
$grown = [];
foreach ($after as $what => $amount) {
    $grown[$what] = $amount - $before[$what];
}
echo json_encode($grown);
