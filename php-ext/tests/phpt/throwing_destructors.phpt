--TEST--
Exceptions of destructors are thrown where the value is released, and no operation stays half done
--FILE--
<?php
use Pillion\{ToolCall, ToolDefinition, ToolExecutor, ToolInterface, ToolRegistry, ToolResult};

class Bomb {
    function __construct(public string $name = 'bomb') {}
    function __destruct() { throw new DomainException("$this->name went off"); }
    function __invoke() { return 'ok'; }
}
function attempt(string $what, callable $run): void {
    try {
        $result = $run();
        echo "$what: ", json_encode($result), "\n";
    } catch (Throwable $e) {
        echo "$what: ", get_class($e), ': ', $e->getMessage(), "\n";
    }
}
$registry = ToolRegistry::withBuiltins();
$executor = new ToolExecutor($registry);
$calls = [new ToolCall('1', 'bomb'), new ToolCall('2', 'fine'), new ToolCall('3', 'calculator', ['expression' => '1+1'])];

$registry->register(new ToolDefinition('bomb', 'x'), fn () => new class extends Bomb implements JsonSerializable {
    function jsonSerialize(): mixed { return 'shown'; }
});
$registry->register(new ToolDefinition('fine', 'x'), fn () => 'fine');
foreach (['executeAll', 'executeParallel'] as $method) {
    attempt($method, fn () => array_map(fn ($result) => $result->toMessage(), $executor->$method($calls)));
}
attempt('replace', function () use ($registry) {
    $registry->register(new ToolDefinition('held', 'x'), new Bomb('held'));
    $registry->register(new ToolDefinition('held', 'x'), fn () => 'new', replace: true);
});
attempt('after it', fn () => $registry->execute('held', [], '1')->result);
attempt('unregister', function () use ($registry) {
    $registry->register(new ToolDefinition('gone', 'x'), new Bomb('gone'));
    $registry->unregister('gone');
});
attempt('after it', fn () => [$registry->has('gone'), isset($registry->getAll()['gone'])]);
attempt('approve', fn () => (new ToolExecutor($registry, [
    'approvals' => ['default' => 'always-ask'],
    'approve' => function () { $local = new Bomb('approver'); return true; },
]))->execute($calls[1])->toMessage());
attempt('an executor', function () use ($registry) {
    $executor = new ToolExecutor($registry, ['approve' => new Bomb('callable')]);
    unset($executor);
});
attempt('at the end', fn () => $executor->execute($calls[2])->result);
?>
--EXPECT--
executeAll: ["Error: bomb went off","fine","2"]
executeParallel: ["Error: bomb went off","fine","2"]
replace: DomainException: held went off
after it: "new"
unregister: DomainException: gone went off
after it: [false,false]
approve: "Error: approver went off"
an executor: DomainException: callable went off
at the end: "2"
