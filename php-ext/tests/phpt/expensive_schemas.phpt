--TEST--
Schemas of an MCP server that are expensive to compile take little memory and time
--SKIPIF--
<?php
if (getenv('USE_ZEND_ALLOC') === '0') die('skip a few seconds are too short under valgrind');
if (!is_readable('/proc/self/status')) die('skip no /proc');
?>
--INI--
memory_limit=64M
max_execution_time=10
pillion.log_level=error
--FILE--
<?php
use Pillion\{ToolCall, ToolExecutor, ToolRegistry};

require __DIR__ . '/../servers/start.inc';
function resident(): int
{
    preg_match('/VmRSS:\s+(\d+) kB/', file_get_contents('/proc/self/status'), $found);
    return intdiv((int) $found[1], 1024);
}
$before = resident();
$registry = new ToolRegistry();
$names = $registry->registerMcpServer(['server_url' => str_replace('/sse', '/expensive', $url)]);
$executor = new ToolExecutor($registry);
echo count($names), " tools\n";
echo $executor->execute(new ToolCall('1', 'roll', ['dice' => '1d20']))->result['total'], "\n";
var_dump($executor->execute(new ToolCall('2', 't100', ['p0' => 'ab0']))->success);
echo $executor->execute(new ToolCall('3', 't100', ['p0' => 'x']))->errorCode, "\n";
echo $executor->execute(new ToolCall('4', 't0', ['p0' => 'ab0']))->errorCode, "\n";
$grown = resident() - $before;
echo $grown < 200 ? "little memory\n" : "$grown MiB\n";
?>
--EXPECT--
102 tools
15
bool(true)
invalid_input
unavailable
little memory
