--TEST--
The garbage collector frees cycles through clients, streams and their callbacks
--FILE--
<?php
use Pillion\{McpClient, MCPSSEClient, ToolExecutor, ToolRegistry};

require __DIR__ . '/../servers/start.inc';

class Witness { public static int $alive = 0; function __construct() { self::$alive++; } function __destruct() { self::$alive--; }
    function log() {} function dispatch(object $event) { return $event; } }

function cycle(string $url): void {
    $witness = new Witness;
    $client = new McpClient($url);
    $witness->client = $client;
    $witness->sse = (new MCPSSEClient($url))->setLogger($witness);
    $client->onSampling(fn () => [$client, $witness])->onElicitation(fn () => $witness)->onNotification(fn () => $witness);
    $client->setLogger($witness)->setEventDispatcher($witness);
    $witness->registry = new ToolRegistry;
    $witness->registry->registerMcpServer($client);
    $witness->executor = (new ToolExecutor($witness->registry))->setLogger($witness);
    $witness->executor->execute(['id' => '1', 'name' => 'roll', 'arguments' => ['dice' => '1d6']]);
    $witness->unread = $client->streamTool('slow', ['seconds' => 60]);
    $witness->stream = $client->streamTool('roll');
    foreach ($witness->stream as $progress) {}
}

for ($i = 0; $i < 20; $i++) @cycle($url);
gc_collect_cycles();
echo Witness::$alive, " alive\n";
?>
--EXPECT--
0 alive
