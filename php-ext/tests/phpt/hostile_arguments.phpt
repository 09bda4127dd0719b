--TEST--
No method crashes for any arguments, on constructed and unconstructed objects
--INI--
pillion.log_level=off
memory_limit=256M
--FILE--
<?php
mt_srand(20251014);
error_reporting(0);

class Hostile implements JsonSerializable {
    public function __toString(): string { throw new Exception('no string'); }
    public function jsonSerialize(): mixed { return mt_rand(0, 1) ? throw new Exception('no JSON') : $this; }
    public function getTools() { return mt_rand(0, 1) ? $this : 5; }
    public function __invoke() { return $this; }
}
$loop = []; $loop['self'] = &$loop;
$values = fn () => [
    null, true, 0, -1, PHP_INT_MIN, 1.5, NAN, '', 'x', "\0", "\xff", str_repeat('y', 5000), '{"bad', 'http://127.0.0.1:1/',
    [], ['a' => 1], [[[]]], ['name' => []], ['id' => '1', 'name' => 'calculator', 'arguments' => []], ['server_url' => 5],
    $loop, STDIN, new stdClass, new Hostile, fn () => 1, 'strlen', ['x', 'y'],
];
$classes = array_filter((new ReflectionExtension('pillion'))->getClassNames(), fn ($class) => !is_a($class, Throwable::class, true));
$calls = 0;
foreach ($classes as $class) {
    $reflection = new ReflectionClass($class);
    if ($reflection->isInterface() || $reflection->isAbstract()) continue;
    for ($round = 0; $round < 60; $round++) {
        $objects = [];
        try { $objects[] = $reflection->newInstanceWithoutConstructor(); } catch (Throwable) {}
        try { $objects[] = new $class(...array_map(fn () => $values()[mt_rand(0, 26)], range(1, mt_rand(1, 4)))); } catch (Throwable) {}
        try { $objects[] = new $class('name', 'text'); } catch (Throwable) {}
        if ($class === Pillion\ToolRegistry::class) $objects[] = Pillion\ToolRegistry::withBuiltins();
        foreach ($objects as $object) {
            foreach ($reflection->getMethods() as $method) {
                $count = mt_rand(0, $method->getNumberOfParameters() + 1);
                $arguments = [];
                for ($i = 0; $i < $count; $i++) $arguments[] = $values()[mt_rand(0, 26)];
                try { $method->invokeArgs($object, $arguments); } catch (Throwable) {}
                $calls++;
            }
            try { clone $object; } catch (Throwable) {}
            try { unserialize(serialize($object)); } catch (Throwable) {}
            try { json_encode($object); var_export($object, true); $object == clone $object; } catch (Throwable) {}
        }
    }
}
gc_collect_cycles();
echo $calls > 5000 ? 'done' : "only $calls calls", "\n";
?>
--EXPECT--
done
