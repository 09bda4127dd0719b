--TEST--
No method uses what PHP code has released during the call: references in arguments, from every kind of PHP code
--INI--
pillion.log_level=off
memory_limit=512M
error_reporting=E_ALL
display_errors=0
log_errors=0
--FILE--
<?php
mt_srand(20261127);

/** Every reference of the current arguments, which PHP code overwrites in the middle of a call. */
final class Memory {
    public static array $targets = [];
    public static array $junk = [];
    public static int $frees = 0;
    public static array $by = [];

    /** Replaces what the references contain, and fills the memory with values that no method has received. */
    public static function free(string $by): void {
        self::$by[$by] = true;
        $targets = self::$targets;
        self::$targets = [];
        self::$junk = [];
        foreach (array_keys($targets) as $key) {
            $targets[$key] = self::$frees % 2 ? null : 'new';
            self::$frees++;
        }
        unset($targets);
        for ($size = 1; $size < 640; $size += 8) {
            for ($count = 0; $count < 6; $count++) self::$junk[] = str_repeat('J', $size);
        }
    }

    /** Makes a PHP reference of the value, and of each value in it. */
    public static function references(mixed $value): mixed {
        if (!is_array($value)) return $value;
        $result = [];
        foreach ($value as $key => $inner) {
            $node = self::references($inner);
            $result[$key] = &$node;
            self::$targets[] = &$node;
            unset($node);
        }
        return $result;
    }
}

// Each kind of PHP code that a method can run.
class Json implements JsonSerializable {
    public function __construct(public mixed $shown = ['type' => 'object']) {}
    public function jsonSerialize(): mixed { Memory::free('jsonSerialize'); return $this->shown; }
}
class Text { public function __toString(): string { Memory::free('__toString'); return 'text'; } }
class Invoked { public function __invoke(...$arguments) { Memory::free('__invoke'); return $this->method(); } public function method() { Memory::free('callback'); return ['a' => [spl_object_id($this)]]; } }
class Destroyed { public function __destruct() { Memory::free('__destruct'); } }
class Getter { public $a; public function __construct() { unset($this->a); } public function __get($name) { Memory::free('__get'); return null; } public function getTools() { Memory::free('getTools'); return ['function_calling' => true]; } }
class Adapter extends Pillion\MCPToolAdapter {
    public function __construct(array $entry = []) { parent::__construct($entry); }
    public function getName(): string { Memory::free('getName'); return 'adapter'; }
    public function getDefinition(): Pillion\ToolDefinition { Memory::free('getDefinition'); return new Pillion\ToolDefinition('adapter', 'A test'); }
    public function execute(array $arguments, string $toolCallId): Pillion\ToolResult { Memory::free('execute'); return new Pillion\ToolResult($toolCallId, 'adapter', new Json(['a' => 1]), data: new Json()); }
    public function getMCPCategory(): string { return 'mcp'; }
    public function getMCPServerConfig(): array { Memory::free('getMCPServerConfig'); return ['server_label' => 'x', 'server_url' => 'http://127.0.0.1:1/']; }
    public function drop(): void { unset($this->serverConfig); }
    public function __get($name) { Memory::free('adapter __get'); return ['server_url' => new Json('http://127.0.0.1:1/')]; }
}
enum Suit: string { case Hearts = 'h'; public function __invoke() {} }
class Tooled {
    /**
     * A tool
     * @param Suit $suit the suit
     */
    #[Pillion\AsTool(name: 'tooled')]
    public static function tool(Suit $suit, int $count = 1): array { Memory::free('tool'); return [$suit->value, new Json()]; }
}
class Observer {
    public function log($level, $message, $context = []) { Memory::free('log'); }
    public function dispatch($event) { Memory::free('dispatch'); return $event; }
    public function get($key, $default = null) { Memory::free('cache'); return $default; }
    public function set($key, $value, $ttl = null) { Memory::free('cache'); return true; }
    public function delete($key) { return true; }
    public function load(string $key): ?array { Memory::free('tokens'); return [new Json('x')]; }
    public function save(string $key, ?array $tokens): void {}
}
spl_autoload_register(function (string $class): void {
    Memory::free('autoloader');
});
set_error_handler(function (): bool { Memory::free('error handler'); return true; });

$url = 'http://127.0.0.1:1/mcp';
$definition = fn () => new Pillion\ToolDefinition('named' . mt_rand(), 'A test', ['type' => 'object', 'properties' => ['a' => ['default' => new Json(1)]]]);
$result = fn () => new Pillion\ToolResult('id' . mt_rand(), 'name' . mt_rand(), new Json(['a' => new Json()]), data: new Json(), metadata: ['m' => new Json()]);
$call = fn () => new Pillion\ToolCall('id' . mt_rand(), 'tool', ['suit' => 'h', 'a' => new Json(1)]);
/** Values whose inner values become references. */
$shapes = fn () => [
    // Values that convert with a notice, and code that runs then.
    null, 1.5, '', 'Missing\\A' . mt_rand(), 'Missing\\B' . mt_rand() . '::method', 'strlen', new Text(), new Json(), new Invoked(), new Getter(),
    [new Destroyed()], [$result(), $result()], [$definition(), $definition()], [$call(), $call()], [$result(), 'x' . mt_rand()], [$definition(), 5],
    ['Missing\\C' . mt_rand(), 'method' . mt_rand()], [new Invoked(), 'method'], [new Invoked(), 'missing' . mt_rand()], [Tooled::class, 'tool'], ['Missing\\Lazy' . mt_rand(), 'm' . mt_rand(), 'x'],
    ['id' => 'i' . mt_rand(), 'name' => 'tool', 'arguments' => ['suit' => 'h', 'j' => new Json(1)]],
    ['id' => 'i' . mt_rand(), 'function' => ['name' => 'n' . mt_rand(), 'arguments' => ['j' => new Json(), 'k' => 'k' . mt_rand()]]],
    [['id' => 'i' . mt_rand(), 'name' => 'tool', 'arguments' => [new Json()]], ['id' => 'j' . mt_rand(), 'function' => ['name' => 'tool', 'arguments' => '{}']]],
    [['name' => new Json(), 'arguments' => 5], $call()],
    ['content' => [['type' => 'text', 'text' => 't' . mt_rand()], ['type' => 'image', 'data' => 'eA==', 'mimeType' => 'image/x' . mt_rand()], ['type' => 'resource', 'resource' => ['mimeType' => 'image/y', 'blob' => 'eA==']]], 'structuredContent' => new Json()],
    ['content' => [], 'structuredContent' => ['s' => new Json()], 'isError' => true],
    ['timeout' => 1, 'on_progress' => 'Missing\\D' . mt_rand() . '::progress', 'meta' => ['m' => new Json()], 'id' => 'i' . mt_rand()],
    ['on_progress' => ['Missing\\E' . mt_rand(), 'progress'], 'timeout' => 1], ['on_progress' => [new Invoked(), 'method'], 'meta' => new Json(['a' => 1])], ['meta' => new Json(5), 'id' => 5],
    ['approve' => [new Invoked(), 'method'], 'before' => new Invoked(), 'timeout' => new Json(1)], ['approve' => ['Missing\\F' . mt_rand(), 'm'], 'approvals' => ['default' => new Json('always-ask')]],
    ['model' => 'm' . mt_rand(), 'base_url' => 'http://127.0.0.1:1/v1', 'api_key' => ['Missing\\G' . mt_rand(), 'key'], 'headers' => ['x' => new Json('y')]],
    ['model' => 'm', 'base_url' => 'http://127.0.0.1:1/v1', 'api_key' => [new Invoked(), 'method'], 'tools' => ['function_calling' => true], 'max_retries' => 0],
    ['user' => new Json('alice'), 'channel' => 'c' . mt_rand(), 'approved' => [new Json('x'), 'y' . mt_rand()], 'more' => ['deep' => [new Json(), 'z' . mt_rand()]]],
    ['server_url' => 'http://127.0.0.1:1/', 'server_label' => 'l' . mt_rand(), 'require_approval' => ['always' => ['tool_names' => [new Json('x')]]], 'headers' => ['a' => new Json('b')]],
    ['command' => ['/nonexistent' . mt_rand(), new Json('x')], 'env' => ['a' => new Json('b')]],
    ['get_weather' => ['provider' => new Json('mock')], 'web_search' => ['api_key' => 'k' . mt_rand()]],
    ['role' => 'user', 'content' => new Json('Hello')], [['role' => 'user', 'content' => [['type' => 'text', 'text' => new Json('Hello')]]]],
    ['choices' => [['message' => ['tool_calls' => [['id' => 'x' . mt_rand(), 'function' => ['name' => 'n', 'arguments' => new Json('{}')]]], 'content' => new Json('c')]]]],
    ['text' => 't' . mt_rand(), 'id' => new Json('x'), 'status' => 'pending', 'function_calling' => true, 'enabled_tools' => [new Json('tool')]],
    [['id' => 'a' . mt_rand(), 'tool' => 't' . mt_rand(), 'arguments' => ['x' => 'y' . mt_rand()]]],
];
$registry = function () use ($definition): Pillion\ToolRegistry {
    $registry = Pillion\ToolRegistry::withBuiltins();
    $registry->register(Pillion\ToolDefinition::fromCallable([Tooled::class, 'tool'], 'tool'), [Tooled::class, 'tool']);
    $registry->register(new Adapter(['server_url' => 'http://127.0.0.1:1/']));
    $registry->register(new Pillion\ToolDefinition('free', 'A test', requiresConfirmation: true), new Invoked());
    return $registry;
};
$executor = fn () => (new Pillion\ToolExecutor($registry(), ['approve' => function (...$a) { Memory::free('approve'); return true; }, 'before' => function (...$a) { Memory::free('before'); }]))
    ->setLogger(new Observer())->setEventDispatcher(new Observer());
$model = ['model' => 'm', 'base_url' => 'http://127.0.0.1:1/v1', 'api_key' => fn () => Memory::free('api_key') ?? 'key', 'max_retries' => 0];
/** Objects whose methods are called. */
$objects = [
    Pillion\ToolRegistry::class => $registry,
    Pillion\ToolExecutor::class => $executor,
    Pillion\ToolDefinition::class => $definition,
    Pillion\ToolResult::class => fn () => new Pillion\ToolResult('id', 'name', Memory::references(['content' => [['type' => 'text', 'text' => 't' . mt_rand()]], 'structuredContent' => ['x' => new Json()]]), data: new Json(), metadata: Memory::references(['m' => new Json()])),
    Pillion\ToolCall::class => $call,
    Pillion\MCPSSEClient::class => fn () => (new Pillion\MCPSSEClient($url, 1))->setLogger(new Observer())->setEventDispatcher(new Observer())->setCache(new Observer()),
    Pillion\McpClient::class => fn () => (new Pillion\McpClient($url, ['timeout' => 1]))->setLogger(new Observer())->setEventDispatcher(new Observer())->setCache(new Observer()),
    Adapter::class => fn () => new Adapter(['server_url' => $url, 'server_label' => 'x']),
    Pillion\DmcpTool::class => fn () => new Pillion\DmcpTool(['server_url' => 'http://127.0.0.1:1/sse']),
    Pillion\Sidecar::class => fn () => new Pillion\Sidecar('/nonexistent.sock', 1),
    Pillion\ToolAwareChat::class => fn () => new Pillion\ToolAwareChat($executor(), $model, ['timeout' => 2]),
    Pillion\CallableTool::class => fn () => new Pillion\CallableTool(Pillion\ToolDefinition::fromCallable([Tooled::class, 'tool'], 'tool'), [Tooled::class, 'tool']),
    Pillion\NativeTool::class => fn () => Pillion\ToolRegistry::withBuiltins()->get('calculator'),
    Pillion\ChatEvent::class => fn () => new Pillion\ChatEvent('delta', ['text' => 'x']),
    Pillion\ChatAnswer::class => fn () => new Pillion\ChatAnswer(status: 'awaiting_approval', approvals: Memory::references([['id' => 'a' . mt_rand(), 'tool' => 't' . mt_rand(), 'arguments' => ['x' => new Json()]]])),
];
foreach ((new ReflectionExtension('pillion'))->getClassNames() as $class) {
    $reflection = new ReflectionClass($class);
    if ($reflection->isInstantiable() && !is_a($class, Throwable::class, true)) $objects += [$class => null];
}
// An object that cannot be made would hide its methods from the test.
foreach (array_filter($objects) as $class => $make) $make() instanceof $class || throw new LogicException($class);
$valid = ['string' => 'text', 'array' => [], 'int' => 1, 'float' => 1.0, 'bool' => true];
/** Ordinary arguments of a method. */
$ordinary = function (ReflectionMethod $method) use ($valid, $registry, $definition, $executor): array {
    $arguments = [];
    foreach ($method->getParameters() as $parameter) {
        $type = (string) $parameter->getType();
        $arguments[] = match (true) {
            $parameter->isDefaultValueAvailable() => $parameter->getDefaultValue(),
            str_contains($type, 'ToolRegistry') => $registry(),
            str_contains($type, 'ToolExecutor') => $executor(),
            str_contains($type, 'ToolDefinition') => $definition(),
            $parameter->getName() === 'provider' => ['openai', 'anthropic', 'google', 'openai-responses'][mt_rand(0, 3)],
            in_array($parameter->getName(), ['url', 'serverUrl', 'server'], true) => 'http://127.0.0.1:1/mcp',
            default => $valid[trim(explode('|', $type)[0], '?')] ?? null,
        };
    }
    return $arguments;
};
$calls = 0;
$suspicious = [];
$check = function (mixed $seen, string $where) use (&$suspicious): void {
    if (str_contains(is_string($seen) ? $seen : print_r($seen, true), 'JJJJ')) $suspicious[$where] = true;
};
$try = function (Closure $work, string $where) use (&$calls, $check): void {
    $calls++;
    try {
        $check($work(), $where);
    } catch (Throwable $e) {
        $check($e->getMessage(), $where);
    }
    Memory::$targets = [];
};
$only = getenv('FREED_ARGUMENTS_CLASS') ?: '';
foreach ($objects as $class => $make) {
    if ($only !== '' && !str_ends_with($class, $only)) continue;
    foreach ((new ReflectionClass($class))->getMethods(ReflectionMethod::IS_PUBLIC) as $method) {
        if (!$method->isInternal() && !$method->isConstructor()) continue;
        foreach ($method->getParameters() as $index => $parameter) {
            if (in_array((string) $parameter->getType(), ['bool', 'int'], true)) continue;
            foreach (array_keys($shapes()) as $number) {
                $where = "$class::{$method->getName()}(\${$parameter->getName()}), shape $number";
                $try(function () use ($class, $make, $method, $index, $shapes, $number, $ordinary) {
                    $object = $method->isStatic() ? null : ($method->isConstructor() || $make === null ? (new ReflectionClass($class))->newInstanceWithoutConstructor() : $make());
                    if ($object instanceof Adapter && mt_rand(0, 1)) $object->drop();
                    $arguments = $ordinary($method);
                    Memory::$targets = [];
                    $arguments[$index] = Memory::references($shapes()[$number]);
                    $seen = $method->invokeArgs($object, $arguments);
                    if (is_object($seen) && method_exists($seen, 'text')) $seen->text();
                    if ($seen instanceof Traversable) foreach ($seen as $item) break;
                    return $seen;
                }, $where);
            }
        }
        if ($make !== null && $method->getNumberOfRequiredParameters() === 0 && !$method->isConstructor()) {
            $try(fn () => $method->invoke($method->isStatic() ? null : $make()), "$class::{$method->getName()}()");
        }
    }
}
if ($only === '') {
    // The references of one call, from the callbacks of another object.
    for ($round = 0; $round < 200; $round++) {
        $e = $executor();
        $names = ['tool', 'free', 'adapter', 'calculator'];
        $try(fn () => $e->{['executeAll', 'executeParallel'][$round % 2]}(Memory::references(array_map(
            fn ($i) => ['id' => "c$i" . mt_rand(), 'name' => $names[mt_rand(0, 3)], 'arguments' => ['suit' => 'h', 'expression' => '1'] + ($round % 3 ? [] : ['x' => new Json()])],
            range(1, 4),
        )), Memory::references(['user' => 'u' . mt_rand(), 'more' => $round % 5 ? ['x'] : [new Json()]])), "round $round");
    }
    // The object of a callable that releases itself.
    $self = new class { public array $data; public function __construct() { $this->data = [str_repeat('d', 40)]; } public function run(): string { Memory::free('itself'); return implode($this->data); } };
    $tools = new Pillion\ToolRegistry();
    $handler = Memory::references([$self, 'run']);
    unset($self);
    $tools->register(new Pillion\ToolDefinition('self', 'A test'), $handler);
    unset($handler);
    $check($tools->execute('self', [], 'id')->result, 'a callable that releases its object');
}
gc_collect_cycles();
$expected = ['jsonSerialize', '__toString', 'autoloader', 'error handler', '__destruct', '__invoke', 'callback', 'approve', 'before', 'log', 'dispatch', 'cache', 'getDefinition', 'getMCPServerConfig', 'tool', 'execute', 'getTools', 'adapter __get', 'api_key', 'itself'];
if ($only === '') echo 'never ran: ', implode(', ', array_diff($expected, array_keys(Memory::$by))) ?: 'nothing', "\n";
echo 'released memory in: ', implode("\n", array_keys($suspicious)) ?: 'nothing', "\n";
echo $calls > 2000 || $only !== '' ? 'done' : "only $calls calls", "\n";
?>
--EXPECT--
never ran: nothing
released memory in: nothing
done
