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
    'models' => [
        // The same model twice: what it may do is said here. `upstream` is what its provider calls it.
        'with-mcp' => ['provider' => 'openai', 'upstream' => env('LLM_MODEL', 'fake'), 'function_calling' => true, 'mcp' => true],
        'without-mcp' => ['provider' => 'openai', 'upstream' => env('LLM_MODEL', 'fake'), 'function_calling' => true, 'mcp' => false],
    ],
    'log' => ['channel' => 'pillion'],
];
