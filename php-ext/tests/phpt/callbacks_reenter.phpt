--TEST--
Callbacks can use and change the objects that call them
--FILE--
<?php
use Pillion\{ToolCall, ToolDefinition, ToolExecutor, ToolRegistry};

$registry = ToolRegistry::withBuiltins();
$define = fn (string $name) => new ToolDefinition($name, 'A test', requiresConfirmation: $name === 'asks');
$executor = null;
$log = [];
$dispatcher = new class ($log) {
    private int $depth = 0;
    function __construct(private array &$log) {}
    function dispatch(object $event): object {
        global $executor;
        if ($event instanceof Pillion\Event\ToolCallFinished && $this->depth++ === 0) {
            $this->log[] = 'listener: ' . $executor->execute(new ToolCall('l', 'calculator', ['expression' => '2*2']))->result;
            $executor->setEventDispatcher(null)->setEventDispatcher($this);
        }
        return $event;
    }
};
$executor = new ToolExecutor($registry, ['approve' => function (ToolCall $call) use (&$executor, $registry, $define) {
    $registry->register($define('late'), fn () => 'late');
    return $executor->execute(new ToolCall('a', 'late'))->result === 'late';
}]);
$executor->setEventDispatcher($dispatcher);

$registry->register($define('vanishes'), function () use ($registry) {
    $registry->unregister('vanishes');
    gc_collect_cycles();
    return 'still here';
});
$registry->register($define('becomes'), function () use ($registry, $define, &$executor) {
    $registry->register($define('becomes'), fn () => 'another', replace: true);
    return 'first, then ' . $executor->execute(new ToolCall('b', 'becomes'))->result;
});
$registry->register($define('asks'), fn () => 'asked');
$registry->register($define('deep'), function (array $arguments) use (&$executor) {
    $n = $arguments['n'];
    return $n === 0 ? 'bottom' : $executor->executeParallel([new ToolCall('d', 'deep', ['n' => $n - 1]), new ToolCall('e', 'calculator', ['expression' => '1'])])[0]->result;
});
$registry->register($define('constructs'), function () use (&$executor, $registry) {
    try { $executor->__construct($registry, ['timeout' => 1]); } catch (Error $e) { return $e->getMessage(); }
});
foreach (['vanishes', 'vanishes', 'becomes', 'asks', 'constructs'] as $name) {
    echo "$name: ", $executor->execute(new ToolCall('1', $name))->toMessage(), "\n";
}
echo 'deep: ', $executor->execute(new ToolCall('1', 'deep', ['n' => 3]))->result, "\n";
echo implode(', ', $log), "\n";
?>
--EXPECT--
vanishes: still here
vanishes: Error: Unknown tool: vanishes
becomes: first, then another
asks: asked
constructs: Pillion\ToolExecutor is already constructed
deep: bottom
listener: 4
