--TEST--
A forked child gets its own runtime and connections, and those of the parent keep working
--SKIPIF--
<?php if (!function_exists('pcntl_fork')) die('skip no pcntl'); ?>
--INI--
pillion.log_level=error
--FILE--
<?php
use Pillion\{MCPSSEClient, ToolCall, ToolExecutor, ToolRegistry};

require __DIR__ . '/../servers/start.inc';
$client = new MCPSSEClient($url);
$registry = ToolRegistry::withBuiltins();
$registry->registerMcpServer($client);
$executor = new ToolExecutor($registry);

$connection = fn () => $client->callTool('connection')['connection'];
$run = fn () => array_column($executor->executeParallel([
    new ToolCall('1', 'roll', ['dice' => '1d20']),
    new ToolCall('2', 'calculator', ['expression' => '6*7']),
]), 'success');

$before = $connection();
$pid = pcntl_fork();
if ($pid === 0) {
    echo 'child: ', $connection() === $before ? 'the same connection' : 'its own connection', "\n";
    echo 'child: ', json_encode($run()), "\n";
    exit(7);
}
pcntl_waitpid($pid, $status);
echo 'the child ended with ', pcntl_wexitstatus($status), "\n";
echo 'parent: ', $connection() === $before ? 'the same connection' : 'another connection', "\n";
echo 'parent: ', json_encode($run()), "\n";
?>
--EXPECT--
child: its own connection
child: [true,true]
the child ended with 7
parent: the same connection
parent: [true,true]
