--TEST--
Arguments follow PHP's type rules, with and without strict_types
--FILE--
<?php
use Pillion\{MCPSSEClient, ToolResult};

$client = new MCPSSEClient('http://127.0.0.1:1/', '30');
$result = new ToolResult(5, 'name', null, 1, 7.5);
var_dump($result->toolCallId, $result->success, $result->error);
try {
    new MCPSSEClient('http://127.0.0.1:1/', 'soon');
} catch (TypeError $e) {
    echo $e->getMessage(), "\n";
}
eval(<<<'STRICT'
declare(strict_types=1);
try {
    new Pillion\ToolResult(5, 'name', null);
} catch (TypeError $e) {
    echo $e->getMessage(), "\n";
}
new Pillion\MCPSSEClient('http://127.0.0.1:1/', timeout: 1.5);
STRICT);
try {
    new ToolResult('a', 'b', null, unknown: 1);
} catch (Error $e) {
    echo $e->getMessage(), "\n";
}
?>
--EXPECT--
string(1) "5"
bool(true)
string(3) "7.5"
Pillion\MCPSSEClient::__construct(): Argument #2 ($timeout) must be of type int|float, string given
Pillion\ToolResult::__construct(): Argument #1 ($toolCallId) must be of type string, int given
Unknown named parameter $unknown
