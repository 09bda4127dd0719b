--TEST--
Rejects arguments that cannot be JSON by name and type, without a warning; accepts large arguments
--FILE--
<?php
use Pillion\{ToolCall, ToolDefinition, ToolExecutor, ToolRegistry, ToolResult};

enum Plain { case One; }
$loop = [];
$loop['self'] = &$loop;
$object = new stdClass;
$object->self = $object;
$bad = [
    'recursive array' => $loop,
    'recursive object' => ['x' => $object],
    'resource' => ['x' => STDIN],
    'closure' => ['x' => fn () => 1],
    'generator' => ['x' => (fn () => yield 1)()],
    'NaN' => ['x' => NAN],
    'infinity' => ['x' => -INF],
    'invalid text' => ['x' => "\xff"],
    'invalid key' => ["\xff" => 1],
    'plain enum' => ['x' => Plain::One],
];
$registry = new ToolRegistry;
$registry->register(new ToolDefinition('echo', 'Echo'), fn (array $arguments) => $arguments);
$executor = new ToolExecutor($registry);
$ways = [
    'execute' => fn ($bad) => $executor->execute(new ToolCall('1', 'echo', $bad)),
    'parallel' => fn ($bad) => $executor->executeParallel([['id' => '1', 'name' => 'echo', 'arguments' => $bad]]),
    'registry' => fn ($bad) => $registry->execute('echo', $bad, '1'),
    'context' => fn ($bad) => $executor->execute(new ToolCall('1', 'echo'), $bad),
    'options' => fn ($bad) => new ToolExecutor($registry, $bad),
    'definition' => fn ($bad) => new ToolDefinition('x', 'x', $bad),
    'text' => fn ($bad) => (new ToolResult('1', 'x', $bad))->text(),
];
foreach ($bad as $kind => $value) {
    $messages = [];
    foreach ($ways as $way => $run) {
        try {
            $run($value);
            echo "$way took a $kind\n";
        } catch (Pillion\Exception\InvalidInputException $e) {
            $messages[preg_replace('/^The (argument \$)?\w+ is/', '...', $e->getMessage())] = true;
            if ($kind === 'closure') echo $e->getMessage(), "\n";
        }
    }
    echo "$kind: ", implode(' | ', array_keys($messages)), "\n";
}
$large = ['text' => str_repeat('é', 1 << 20), 'x' => ['deep' => [str_repeat("\0", 1 << 10)]]];
var_dump($registry->execute('echo', $large, '1')->result === $large);
var_dump($executor->execute(new ToolCall('1', 'echo', json_encode($large)))->result === $large);
foreach ([[5], [new stdClass], [['id' => 1, 'name' => 'x']], [null]] as $calls) {
    try {
        $executor->executeAll($calls);
    } catch (Pillion\Exception\InvalidInputException $e) {
        echo $e->getMessage(), "\n";
    }
}
?>
--EXPECT--
recursive array: ... not JSON: the value nests deeper than 128 levels, or contains itself
recursive object: ... not JSON: the value nests deeper than 128 levels, or contains itself
resource: ... not JSON: the value contains a resource
The argument $arguments is not JSON: the value contains a Closure
The argument $arguments is not JSON: the value contains a Closure
The argument $arguments is not JSON: the value contains a Closure
The argument $context is not JSON: the value contains a Closure
The argument $options is not JSON: the value contains a Closure
The argument $parameters is not JSON: the value contains a Closure
The value is not JSON: the value contains a Closure
closure: ... not JSON: the value contains a Closure
generator: ... not JSON: the value contains a Generator
NaN: ... not JSON: the value contains NAN or INF
infinity: ... not JSON: the value contains NAN or INF
invalid text: ... not JSON: the value contains text that is not valid UTF-8
invalid key: ... not JSON: the value contains text that is not valid UTF-8
plain enum: ... not JSON: the value contains a non-backed enum
bool(true)
bool(true)
A call must be a Pillion\ToolCall or an array, int given
A call must be a Pillion\ToolCall or an array, stdClass given
A tool call needs a string 'id', int given
A call must be a Pillion\ToolCall or an array, null given
