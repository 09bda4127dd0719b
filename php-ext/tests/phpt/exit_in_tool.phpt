--TEST--
exit() in a tool ends the script normally, and shutdown functions can still call tools
--FILE--
<?php
use Pillion\{ToolCall, ToolDefinition, ToolExecutor, ToolRegistry};

class Witness { function __destruct() { echo "destructed\n"; } }

$registry = ToolRegistry::withBuiltins();
$executor = new ToolExecutor($registry);
$registry->register(new ToolDefinition('leave', 'Exits'), function () {
    $witness = new Witness;
    try {
        exit("bye\n");
    } finally {
        echo "finally is skipped by exit()\n";
    }
});
register_shutdown_function(function () use ($executor) {
    $result = $executor->execute(new ToolCall('2', 'calculator', ['expression' => '6*7']));
    echo "in the shutdown function: {$result->result}\n";
});
$executor->executeParallel([
    new ToolCall('1', 'leave'),
    new ToolCall('2', 'calculator', ['expression' => '1+1']),
    new ToolCall('3', 'leave'),
]);
echo "not reached\n";
?>
--EXPECT--
bye
destructed
in the shutdown function: 42
