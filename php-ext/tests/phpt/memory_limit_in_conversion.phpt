--TEST--
Exceeding memory_limit in a conversion causes only PHP's own fatal error, and the process continues
--SKIPIF--
<?php if (getenv('USE_ZEND_ALLOC') === '0') die('skip memory_limit is of the Zend allocator'); ?>
--INI--
memory_limit=12M
--FILE--
<?php
use Pillion\{ToolCall, ToolDefinition, ToolExecutor, ToolRegistry, ToolResult};

$registry = ToolRegistry::withBuiltins();
$registry->register(new ToolDefinition('counts', 'x'), fn (array $arguments) => count($arguments['list']));
$executor = new ToolExecutor($registry);
$ways = [
    // 300,000 arrays need more than 12 MB, their JSON does not.
    fn () => $executor->execute(new ToolCall('1', 'counts', '{"list":[' . str_repeat('[1],', 300000) . '1]}')),
    fn () => (new ToolResult('1', 'x', ['content' => array_fill(0, 9, ['type' => 'image', 'data' => $GLOBALS['image']])]))->images(),
];
$image = base64_encode(str_repeat('x', 2 << 20));
$next = function () use (&$ways, &$next, $executor) {
    echo "\ncalculator: ", $executor->execute(new ToolCall('2', 'calculator', ['expression' => '6*7']))->result, "\n";
    if ($way = array_shift($ways)) {
        register_shutdown_function($next);
        $way();
        echo "not reached\n";
    }
};
$next();
?>
--EXPECTF--
calculator: 42

Fatal error: Allowed memory size of 12582912 bytes exhausted%s

calculator: 42

Fatal error: Allowed memory size of 12582912 bytes exhausted%s
