<?php

/*
 * Settings not listed here have the defaults of the package's file: see
 * `artisan vendor:publish --tag=pillion-config`.
 */

// Any OpenAI-compatible endpoint. `run` starts a fake model; see README.md for a real one.
$model = [
    'base_url' => env('LLM_URL', 'http://127.0.0.1:8081/v1'),
    'api_key' => env('LLM_KEY'),
    'model' => env('LLM_MODEL', 'fake'),        // the provider's model name
    'function_calling' => true,
];

return [
    'servers' => [
        // npm's server-everything, a real MCP server, unless the environment sets another.
        'everything' => [
            'url' => env('MCP_URL', 'http://127.0.0.1:3001/mcp'),
            'token' => env('MCP_TOKEN'),
            'only' => ['echo', 'get-sum'],
        ],
    ],
    // The same model with two sets of permissions.
    'models' => [
        'with-mcp' => $model + ['mcp' => true],
        'without-mcp' => $model + ['mcp' => false],
    ],
    'chat' => [
        'options' => ['system' => 'You help the customers of a shop.', 'timeout' => 120],
    ],
    'limits' => [
        'max_rounds' => 3,                      // rounds of tool calls before the model must answer
        'rate_limits' => ['tools' => ['refund_order' => ['per_day' => 3]]],
    ],
    'log' => ['channel' => 'pillion'],
];
