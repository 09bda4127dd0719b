--TEST--
max_execution_time ends a tool that runs too long
--SKIPIF--
<?php if (getenv('USE_ZEND_ALLOC') === '0') die('skip a second is too short under valgrind'); ?>
--INI--
max_execution_time=1
--FILE--
<?php
use Pillion\{ToolCall, ToolDefinition, ToolExecutor, ToolRegistry};

$registry = ToolRegistry::withBuiltins();
$executor = new ToolExecutor($registry);
$registry->register(new ToolDefinition('spins', 'Never ends'), function () { while (true); });
register_shutdown_function(function () use ($executor) {
    $result = $executor->execute(new ToolCall('2', 'calculator', ['expression' => '6*7']));
    echo "in the shutdown function: {$result->result}\n";
});
$executor->execute(new ToolCall('1', 'spins'));
echo "not reached\n";
?>
--EXPECTF--
Fatal error: Maximum execution time of 1 second exceeded in %s on line %d
in the shutdown function: 42
