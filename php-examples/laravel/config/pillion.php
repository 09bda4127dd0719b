<?php

/*
 * Settings not listed here have the defaults of the package's file: see
 * `artisan vendor:publish --tag=pillion-config`.
 */

// The URL of any OpenAI-compatible endpoint. The script `run` starts a fake model; README.md
// describes the use of a real model.
$model = [
    'base_url' => env('LLM_URL', 'http://127.0.0.1:8081/v1'),
    'api_key' => env('LLM_KEY'),
    'model' => env('LLM_MODEL', 'fake'),        // the model's name at the provider
    'function_calling' => true,
];

return [
    'servers' => [
        // The default server is npm's server-everything; the environment may set the URL of another
        // MCP server.
        'everything' => [
            'url' => env('MCP_URL', 'http://127.0.0.1:3001/mcp'),
            'token' => env('MCP_TOKEN'),
            'only' => ['echo', 'get-sum'],
        ],
    ],
    // Two entries for the same model, with different permissions.
    'models' => [
        'with-mcp' => $model + ['mcp' => true],
        'without-mcp' => $model + ['mcp' => false],
    ],
    'chat' => [
        'options' => ['system' => 'You help the customers of a shop.', 'timeout' => 120],
    ],
    'limits' => [
        'max_rounds' => 3, // maximum number of rounds of tool calls before the model must answer
        'rate_limits' => ['tools' => ['refund_order' => ['per_day' => 3]]],
    ],
    'log' => ['channel' => 'pillion'],
];
