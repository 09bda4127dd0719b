--TEST--
The extension loads without notices and has its classes and settings
--FILE--
<?php
$extension = new ReflectionExtension('pillion');
echo $extension->getName(), ' ', preg_match('/^\d+\.\d+\.\d+/', $extension->getVersion()), "\n";
$classes = $extension->getClassNames();
sort($classes);
echo implode("\n", $classes), "\n";
print_r($extension->getINIEntries());
echo implode(' ', array_keys($extension->getFunctions())), "\n";
?>
--EXPECT--
pillion 1
Pillion\AsTool
Pillion\CallableTool
Pillion\CancellationToken
Pillion\ChatAnswer
Pillion\ChatEvent
Pillion\ChatStream
Pillion\DmcpTool
Pillion\Event\ServerConnected
Pillion\Event\ToolCallFinished
Pillion\Event\ToolCallStarted
Pillion\Event\ToolsChanged
Pillion\Event\ToolsListed
Pillion\Exception\ApprovalRequiredException
Pillion\Exception\AuthorizationException
Pillion\Exception\CancelledException
Pillion\Exception\DeniedException
Pillion\Exception\InvalidInputException
Pillion\Exception\JsonRpcException
Pillion\Exception\NotFoundException
Pillion\Exception\PillionException
Pillion\Exception\RateLimitedException
Pillion\Exception\SessionExpiredException
Pillion\Exception\TimeoutException
Pillion\Exception\TransportException
Pillion\Exception\UnavailableException
Pillion\MCPSSEClient
Pillion\MCPServerTool
Pillion\MCPToolAdapter
Pillion\MCPToolInterface
Pillion\McpClient
Pillion\NativeTool
Pillion\Parameter
Pillion\Progress
Pillion\ProviderFormat
Pillion\Sidecar
Pillion\TokenStore
Pillion\ToolAwareChat
Pillion\ToolCall
Pillion\ToolDefinition
Pillion\ToolExecutor
Pillion\ToolInterface
Pillion\ToolRegistry
Pillion\ToolResult
Pillion\ToolStream
Array
(
    [pillion.log_level] => warning
    [pillion.max_response_bytes] => 0
    [pillion.max_sessions] => 64
    [pillion.session_idle_ms] => 300000
    [pillion.socket] => 
    [pillion.timeout_ms] => 0
)

