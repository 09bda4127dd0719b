--TEST--
20,000 calls of each kind take no memory with them
--FILE--
<?php
use Pillion\{MCPSSEClient, ToolCall, ToolDefinition, ToolExecutor, ToolRegistry};

require __DIR__ . '/../servers/start.inc';
function resident(): int { preg_match('/VmRSS:\s+(\d+)/', file_get_contents('/proc/self/status'), $m); return (int) $m[1]; }

$client = new MCPSSEClient($url);
$registry = ToolRegistry::withBuiltins();
$registry->register(new ToolDefinition('php', 'PHP', [['name' => 'list', 'type' => 'array']]), fn (array $a) => $a);
$registry->register(new ToolDefinition('throws', 'Throws'), fn () => throw new Exception(str_repeat('x', 1000)));
$executor = new ToolExecutor($registry);
$list = range(1, 50);

$kinds = [
    'tools' => fn () => $executor->executeParallel([
        new ToolCall('1', 'php', ['list' => $list]),
        new ToolCall('2', 'throws'),
        new ToolCall('3', 'calculator', ['expression' => '1+1']),
    ]),
    'objects' => fn () => ToolRegistry::withBuiltins()->register(new ToolDefinition('x', 'y'), fn () => 1),
    'failures' => function () use ($client) {
        try { $client->callTool('x', ['x' => "\xff"]); } catch (Exception) {}
        try { new MCPSSEClient('x', options: ['y' => 1]); } catch (Exception) {}
    },
    'mcp' => fn () => $client->callTool('echo', ['list' => $list]),
];
foreach ($kinds as $kind => $call) {
    $times = $kind === 'mcp' ? 5000 : 20000;
    for ($i = 0; $i < 1000; $i++) $call();
    [$memory, $resident] = [memory_get_usage(), resident()];
    for ($i = 0; $i < $times; $i++) $call();
    $grown = memory_get_usage() - $memory;
    $resident = resident() - $resident;
    echo $kind, ': ', $grown < 20000 ? 'no' : "$grown bytes", ' growth of PHP memory, ',
        $resident < 4000 ? 'none' : "$resident KB", " of the process\n";
}
?>
--EXPECT--
tools: no growth of PHP memory, none of the process
objects: no growth of PHP memory, none of the process
failures: no growth of PHP memory, none of the process
mcp: no growth of PHP memory, none of the process
