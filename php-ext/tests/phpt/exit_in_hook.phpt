--TEST--
A hook can call exit(), fork, and call its own client
--SKIPIF--
<?php if (!function_exists('pcntl_fork')) die('skip no pcntl'); ?>
--FILE--
<?php
use Pillion\McpClient;

require __DIR__ . '/../servers/start.inc';

$client = new McpClient($url, ['timeout' => 10]);
$client->setEventDispatcher(new class ($client) {
    public bool $inside = false;
    function __construct(private McpClient $client) {}
    function dispatch(object $event) {
        if ($this->inside) return $event;
        $this->inside = true;
        echo 'inside: ', $this->client->callTool('roll')->result['total'], "\n";
        $this->client->setEventDispatcher(null);
        return $event;
    }
});
echo $client->callTool('roll')->result['total'], "\n";

$child = pcntl_fork();
if ($child === 0) {
    echo 'child: ', $client->callTool('roll')->result['total'], "\n";
    exit(0);
}
pcntl_waitpid($child, $status);
$stream = $client->streamTool('slow', ['seconds' => 1]);
$child = pcntl_fork();
if ($child === 0) {
    try { $stream->getResult(); } catch (Error $e) { echo 'child: ', $e->getMessage(), "\n"; }
    exit(0);
}
pcntl_waitpid($child, $status);
echo 'parent: ', var_export($stream->getResult()->success, true), "\n";

register_shutdown_function(function () use ($client) { echo 'shutdown: ', $client->callTool('roll')->result['total'], "\n"; });
$client->setLogger(new class { public int $lines = 0; function log() { if (++$this->lines === 2) { echo "exit\n"; exit; } } });
$client->callTool('roll');
echo "not reached\n";
?>
--EXPECT--
inside: 15
15
child: 15
child: Pillion: the process was forked inside a tool or a callback; only the parent continues the call
parent: true
exit
shutdown: 15
