--TEST--
The approve callable can fork or call exit(), and the call does not run
--SKIPIF--
<?php if (!function_exists('pcntl_fork')) die('skip no pcntl'); ?>
--FILE--
<?php
use Pillion\{ToolCall, ToolDefinition, ToolExecutor, ToolRegistry};

$registry = ToolRegistry::withBuiltins();
$registry->register(new ToolDefinition('asks', 'x', requiresConfirmation: true), function () { echo "ran\n"; });
$forks = new ToolExecutor($registry, ['approve' => function () use (&$child) {
    $child = pcntl_fork();
    return false;
}]);
try {
    $result = $forks->execute(new ToolCall('1', 'asks'));
    pcntl_waitpid($child, $status);
    echo "parent: $result->errorCode, the child ended with ", pcntl_wexitstatus($status), "\n";
} catch (Error $e) {
    echo 'child: ', $e->getMessage(), "\n";
    exit(3);
}
$exits = new ToolExecutor($registry, ['approve' => function () {
    exit("bye\n");
}]);
register_shutdown_function(function () use ($exits) {
    echo $exits->execute(new ToolCall('2', 'calculator', ['expression' => '6*7']))->result, "\n";
});
$exits->executeParallel([new ToolCall('1', 'calculator', ['expression' => '1']), new ToolCall('2', 'asks')]);
echo "not reached\n";
?>
--EXPECT--
child: Pillion: the process was forked inside a tool or a callback; only the parent continues the call
parent: denied, the child ended with 3
bye
42
