<?php

declare(strict_types=1);

/*
 * Shows how HAWKI uses MCP tools with Pillion's classes: server entries as in HAWKI's
 * ToolServiceProvider, tools that only models with the right flags see, and tool calls in the
 * format of a model.
 *
 *   php run.php URL
 *
 * URL is the URL of an MCP server with a tool `roll` that takes {dice}. `tests/peers/start mcp1-sse 8000`
 * starts such a server and prints its URL.
 */

use App\Services\AI\Tools\Implementations\MyMcpTool;
use Pillion\DmcpTool;
use Pillion\ProviderFormat;
use Pillion\ToolCall;
use Pillion\ToolExecutor;
use Pillion\ToolRegistry;

require __DIR__ . '/MyMcpTool.php';

$url = $argv[1] ?? exit("Usage: php run.php URL\n");

$mcpServers = [
    [
        'type' => 'mcp',
        'class' => DmcpTool::class,
        'server_label' => 'dmcp',
        'server_description' => 'Rolls dice',
        'server_url' => $url,
        'require_approval' => 'never',
    ],
    [
        'type' => 'mcp',
        'class' => MyMcpTool::class,
        'server_label' => 'my_mcp',
        'server_description' => 'A server that does not run',
        'server_url' => 'http://127.0.0.1:9/sse',
        'require_approval' => 'always',
    ],
];

$registry = ToolRegistry::withBuiltins();
foreach ($mcpServers as $serverConfig) {
    $registry->register(new $serverConfig['class']($serverConfig));
}
echo 'Registered, without any network traffic: ', implode(', ', array_keys($registry->getAll())), "\n\n";

$models = [
    'with MCP' => ['function_calling' => true, 'mcp' => true, 'enabled_tools' => ['dmcp_roll_dice', 'my_mcp_tool']],
    'without MCP (GWDG)' => ['function_calling' => true],
];
foreach ($models as $name => $model) {
    echo "A model $name sees: ", implode(', ', array_keys($registry->getAvailableForModel($model))), "\n";
    foreach ($registry->getDroppedForModel($model) as $tool => $reason) {
        echo "    not $tool: $reason\n";
    }
}

$tools = ProviderFormat::tools('openai', $registry->getDefinitionsForModel($models['with MCP']));
echo "\nThe tools in the request to OpenAI:\n", json_encode($tools, JSON_PRETTY_PRINT | JSON_UNESCAPED_SLASHES), "\n\n";

$calls = [
    new ToolCall(id: 'call_1', name: 'dmcp_roll_dice', arguments: '{"dice": "2d6", "reason": "Initiative"}'),
    new ToolCall(id: 'call_2', name: 'my_mcp_tool', arguments: ['param1' => 'x']),
    new ToolCall(id: 'call_3', name: 'calculator', arguments: ['expression' => '2 ** 10']),
];
$executor = new ToolExecutor($registry);
$results = $executor->executeParallel($calls);
// The entry of my_mcp requires approval (`always`). The next line runs the call after the user's approval.
$results[] = $executor->execute($calls[1], ['approved' => [$results[1]->metadata['approval_id']]]);
echo "No server listens at the URL of my_mcp's entry, so the approved call is expected to fail.\n";
foreach ($results as $result) {
    echo $result->toolName, ' ', $result->success ? 'succeeded' : "failed ($result->errorCode): $result->error", "\n";
    echo '    ', json_encode($result->toMessageFormat(), JSON_UNESCAPED_SLASHES), "\n";
}
