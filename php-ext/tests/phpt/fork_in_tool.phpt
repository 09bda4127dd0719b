--TEST--
A child that is forked inside a tool does not wait for the result
--SKIPIF--
<?php if (!function_exists('pcntl_fork')) die('skip no pcntl'); ?>
--FILE--
<?php
use Pillion\{ToolCall, ToolDefinition, ToolExecutor, ToolRegistry};

$registry = new ToolRegistry;
$registry->register(new ToolDefinition('forks', 'Forks'), fn () => pcntl_fork());
try {
    $result = (new ToolExecutor($registry))->execute(new ToolCall('1', 'forks'));
    pcntl_waitpid($result->result, $status);
    echo 'parent: ', var_export($result->success, true), ', the child ended with ', pcntl_wexitstatus($status), "\n";
} catch (Error $e) {
    echo 'child: ', $e->getMessage(), "\n";
    exit(3);
}
?>
--EXPECT--
child: Pillion: the process was forked inside a tool or a callback; only the parent continues the call
parent: true, the child ended with 3
