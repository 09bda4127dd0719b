<?php

/* What is not said here is as in the package's own file: see `artisan vendor:publish --tag=pillion-config`. */

// Any endpoint in OpenAI's shape. `run` starts one that only looks like a model; see README.md for a real one.
$model = [
    'base_url' => env('LLM_URL', 'http://127.0.0.1:8081/v1'),
    'api_key' => env('LLM_KEY'),
    'model' => env('LLM_MODEL', 'fake'),        // what its provider calls it
    'function_calling' => true,
];

return [
    'servers' => [
        // A real MCP server: npm's server-everything, unless the environment names another.
        'everything' => [
            'url' => env('MCP_URL', 'http://127.0.0.1:3001/mcp'),
            'token' => env('MCP_TOKEN'),
            'only' => ['echo', 'get-sum'],
        ],
    ],
    // The same model twice: what it may do is said here.
    'models' => [
        'with-mcp' => $model + ['mcp' => true],
        'without-mcp' => $model + ['mcp' => false],
    ],
    'chat' => [
        'options' => ['system' => 'You help the customers of a shop.', 'timeout' => 120],
    ],
    'limits' => [
        'max_rounds' => 3,                      // how often a model may call tools before it has to answer
        'rate_limits' => ['tools' => ['refund_order' => ['per_day' => 3]]],
    ],
    'log' => ['channel' => 'pillion'],
];
