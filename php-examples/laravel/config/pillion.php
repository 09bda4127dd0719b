<?php

/* What is not said here is as in the package's own file: see `artisan vendor:publish --tag=pillion-config`. */

return [
    'servers' => [
        // A real MCP server: npm's server-everything, unless the environment names another.
        'everything' => [
            'url' => env('MCP_URL', 'http://127.0.0.1:3001/mcp'),
            'token' => env('MCP_TOKEN'),
            'only' => ['echo', 'get-sum'],
        ],
    ],
    'models' => array_filter([
        // The same model twice: what it may do is said here.
        'with-mcp' => ['provider' => 'openai', 'function_calling' => true, 'mcp' => true],
        'without-mcp' => ['provider' => 'openai', 'function_calling' => true, 'mcp' => false],
        env('LLM_MODEL', '') => ['provider' => 'openai', 'function_calling' => true, 'mcp' => true],
    ], fn ($name) => $name !== '', ARRAY_FILTER_USE_KEY),
    'log' => ['channel' => 'pillion'],
];
