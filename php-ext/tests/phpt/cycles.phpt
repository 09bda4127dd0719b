--TEST--
The garbage collector frees cycles through registries, executors and callables
--FILE--
<?php
use Pillion\{AsTool, ToolAwareChat, ToolDefinition, ToolExecutor, ToolRegistry};

class Witness { public static int $alive = 0; function __construct() { self::$alive++; } function __destruct() { self::$alive--; } }

class Held {
    public array $all = [];
    #[AsTool(description: 'x')] public function run(): void {}
    public function log(): void {}
    public function dispatch(object $event): object { return $event; }
}

function cycle(): void {
    $registry = ToolRegistry::withBuiltins();
    $executor = new ToolExecutor($registry);
    $witness = new Witness;
    $registry->register(new ToolDefinition('self', 'Holds all'), fn () => [$registry, $executor, $witness]);

    // Cycles through the approval callable, an object with attributes, a logger and a dispatcher.
    $executor = new ToolExecutor($registry, ['approve' => function () use (&$executor) { return $executor && new Witness; }]);
    $held = new Held;
    $registry->registerObject($held);
    $executor->setLogger($held)->setEventDispatcher($held);
    // Cycles through the callable that returns the key of a chat.
    $chat = new ToolAwareChat($executor, ['base_url' => 'http://127.0.0.1:1/v1', 'model' => 'x', 'api_key' => function () use (&$chat) { return $chat && new Witness; }]);
    $held->all = [$chat, $registry, $executor, new Witness];
    $definition = ToolDefinition::fromCallable([$held, 'run'], 'again');
    $registry->register($definition, [$held, 'run']);
}

for ($i = 0; $i < 100; $i++) cycle();
gc_collect_cycles();
echo Witness::$alive, " alive\n";
?>
--EXPECT--
0 alive
