--TEST--
Tools and key callables of a chat can throw, fork and call exit()
--SKIPIF--
<?php
if (!function_exists('pcntl_fork')) die('skip no pcntl');
if (!getenv('PILLION_FAKE_LLM')) die('skip no fake model: PILLION_FAKE_LLM');
?>
--FILE--
<?php
use Pillion\{ToolAwareChat, ToolDefinition, ToolExecutor, ToolRegistry};

$llm = proc_open([getenv('PILLION_FAKE_LLM')], [['pipe', 'r'], ['pipe', 'w']], $pipes);
$url = trim(fgets($pipes[1]));
class Witness { function __destruct() { echo "destructed\n"; } }

$registry = ToolRegistry::withBuiltins();
$model = ['base_url' => $url, 'model' => 'fake', 'tools' => ['function_calling' => true]];
$chat = new ToolAwareChat(new ToolExecutor($registry), $model);
$registry->register(new ToolDefinition('throws', 'Throws'), fn () => throw new DomainException('no luck'));
$registry->register(new ToolDefinition('forks', 'Forks'), fn () => pcntl_fork());
$registry->register(new ToolDefinition('again', 'Chats'), fn () => $GLOBALS['chat']->send('Hi from inside')->text);
$registry->register(new ToolDefinition('unsets', 'Leaves the stream'), function () { $GLOBALS['stream'] = null; return 'left'; });
$registry->register(new ToolDefinition('waits', 'Waits for its own chat'), function () { $GLOBALS['stream']->next(); });
$registry->register(new ToolDefinition('leave', 'Exits'), function () {
    $witness = new Witness;
    exit("bye\n");
});

echo $chat->send("throws {}\nagain {}")->text, "\n";

$stream = $chat->stream('unsets {}');
foreach ($stream as $event) {
    if ($event->type === 'done') echo $event->answer->text, "\n";
}

$stream = $chat->stream('waits {}');
echo $stream->getReturn()->text, "\n";

try {
    $text = $chat->send('forks {}')->text;
    preg_match('/\d+/', $text, $child);
    pcntl_waitpid((int) $child[0], $status);
    echo 'parent: the child ended with ', pcntl_wexitstatus($status), "\n";
} catch (Error $e) {
    echo 'child: ', $e->getMessage(), "\n";
    // A forked child has its own chats.
    echo 'child: ', (new ToolAwareChat(new ToolExecutor($registry), $model))->send('Hi')->text, "\n";
    exit(3);
}

$stream = $chat->stream('calculator {"expression": "6*7"}');
$stream->current();
$child = pcntl_fork();
if ($child === 0) {
    try {
        $stream->getReturn();
    } catch (Error $e) {
        echo 'child: ', $e->getMessage(), "\n";
    }
    unset($stream);
    exit(4);
}
pcntl_waitpid($child, $status);
echo $stream->getReturn()->text, ', the child ended with ', pcntl_wexitstatus($status), "\n";

register_shutdown_function(function () use ($chat, $registry, $model) {
    echo $chat->send('calculator {"expression": "1+1"}')->text, "\n";
    $asks = new ToolAwareChat(new ToolExecutor($registry), ['api_key' => function () { exit("no key\n"); }] + $model);
    foreach ($asks->stream('Hi') as $event) echo "not reached\n";
});
foreach ($chat->stream("calculator {\"expression\": \"1\"}\nleave {}") as $event) {
    if ($event->type === 'done') echo "not reached\n";
}
echo "not reached\n";
?>
--EXPECT--
The tools say: {"error":"no luck"}; You said: Hi from inside
The tools say: left
The tools say: {"error":"A tool or callable that a chat is running cannot read the events of the same chat"}
child: Pillion: the process was forked inside a tool or a callback; only the parent continues the call
child: You said: Hi
parent: the child ended with 3
child: Pillion: the process was forked inside a tool or a callback; only the parent continues the call
The tools say: 42, the child ended with 4
bye
destructed
The tools say: 2
no key
