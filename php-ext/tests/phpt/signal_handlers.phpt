--TEST--
Signal handlers run while a call waits: the call continues after a return and ends after an exception
--SKIPIF--
<?php if (!function_exists('pcntl_alarm')) die('skip no pcntl');
if (getenv('USE_ZEND_ALLOC') === '0') die('skip a second is too short under valgrind'); ?>
--FILE--
<?php
require __DIR__ . '/../servers/start.inc';
pcntl_async_signals(true);
$client = new Pillion\MCPSSEClient($url);
$started = microtime(true);

pcntl_signal(SIGALRM, function () use (&$started) {
    printf("a handler ran %s\n", microtime(true) - $started < 2.9 ? 'in time' : 'late');
});
pcntl_alarm(1);
$slept = $client->callTool('slow', ['seconds' => 3])['slept'];
echo "slept $slept\n";

pcntl_signal(SIGALRM, fn () => throw new DomainException('enough'));
pcntl_alarm(1);
$started = microtime(true);
try {
    $client->callTool('slow', ['seconds' => 20]);
} catch (DomainException $e) {
    echo $e->getMessage(), microtime(true) - $started < 5 ? ' in time' : ' late', "\n";
}

pcntl_signal(SIGALRM, function () { echo "leaving\n"; exit; });
pcntl_alarm(1);
$client->callTool('slow', ['seconds' => 20]);
echo "not reached\n";
?>
--EXPECT--
a handler ran in time
slept 3
enough in time
leaving
