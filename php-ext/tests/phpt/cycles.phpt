--TEST--
Cycles through registries, executors and callables are collected
--FILE--
<?php
use Pillion\{ToolDefinition, ToolExecutor, ToolRegistry};

class Witness { public static int $alive = 0; function __construct() { self::$alive++; } function __destruct() { self::$alive--; } }

function cycle(): void {
    $registry = ToolRegistry::withBuiltins();
    $executor = new ToolExecutor($registry);
    $witness = new Witness;
    $registry->register(new ToolDefinition('self', 'Holds all'), fn () => [$registry, $executor, $witness]);
}

for ($i = 0; $i < 100; $i++) cycle();
gc_collect_cycles();
echo Witness::$alive, " alive\n";
?>
--EXPECT--
0 alive
