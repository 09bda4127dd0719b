--TEST--
A fatal error in a tool ends the request without a hang or a held lock
--FILE--
<?php
use Pillion\{ToolCall, ToolDefinition, ToolExecutor, ToolRegistry};

$registry = ToolRegistry::withBuiltins();
$executor = new ToolExecutor($registry);
$registry->register(new ToolDefinition('dies', 'Fatal'), fn () => eval('class Twice {} class Twice {}'));
$registry->register(new ToolDefinition('works', 'Fine'), fn () => 'fine');
register_shutdown_function(function () use ($executor) {
    foreach (['calculator', 'works'] as $name) {
        $result = $executor->execute(new ToolCall('2', $name, $name === 'works' ? [] : ['expression' => '6*7']));
        echo "in the shutdown function: {$result->result}\n";
    }
});
$executor->executeParallel([
    new ToolCall('1', 'dies'),
    new ToolCall('2', 'works'),
    new ToolCall('3', 'calculator', ['expression' => '1+1']),
]);
echo "not reached\n";
?>
--EXPECTF--
Fatal error: Cannot %Sdeclare class Twice%s
in the shutdown function: 42
in the shutdown function: fine
