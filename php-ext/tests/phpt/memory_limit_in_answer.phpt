--TEST--
An answer that exceeds memory_limit causes only PHP's own fatal error
--SKIPIF--
<?php if (getenv('USE_ZEND_ALLOC') === '0') die('skip memory_limit is of the Zend allocator'); ?>
--INI--
memory_limit=8M
--FILE--
<?php
require __DIR__ . '/../servers/start.inc';
$client = new Pillion\MCPSSEClient($url);
register_shutdown_function(function () use ($client) {
    echo 'in the shutdown function: ', $client->callTool('roll')['total'], "\n";
});
$client->callTool('big', ['items' => 300000]);
echo "not reached\n";
?>
--EXPECTF--
Fatal error: Allowed memory size of 8388608 bytes exhausted%s
in the shutdown function: 15
