<?php

/*
 * This file contains no closures, so that `config:cache` can cache it. Settings that need code
 * (the current user, a user's own token, the tenant) belong in a service provider; see
 * docs/how-to/laravel.md. Unknown keys are errors. Null is an error unless the comment of the
 * setting says what null means.
 */

return [

    /*
    |--------------------------------------------------------------------------
    | MCP servers
    |--------------------------------------------------------------------------
    |
    | The MCP servers by name. A server has a URL or a command. Pillion connects to a
    | server only when a tool is needed. `Pillion::server('name')` returns a client for
    | a server; with `register`, models with the `mcp` flag see the server's tools.
    |
    */

    'servers' => [

        // 'everything' => [
        //     'url' => env('MCP_EVERYTHING_URL', 'http://127.0.0.1:3001/mcp'),
        //     'token' => env('MCP_EVERYTHING_TOKEN'),   // a bearer token; null for none
        //     'timeout' => 30,                          // timeout of one call, in seconds
        //     'register' => true,                       // offer the server's tools to models
        //     'prefix' => 'everything_',                // prefix of the tool names; '' for none
        //     'only' => [],                             // offer only these tools (the server's names); [] for all
        //     'except' => [],                           // do not offer these tools (the server's names)
        //     'require_approval' => 'never',            // never, always or prompt
        //     'options' => [],                          // options of McpClient: headers, transport, ...
        // ],

        // 'files' => [
        //     'command' => ['npx', '-y', '@modelcontextprotocol/server-filesystem', storage_path('app')],
        //     'env' => [],
        // ],

        // A server with its own tool class (a subclass of Pillion\MCPToolAdapter): the class
        // receives the complete entry and calls the server itself.
        // 'dmcp' => [
        //     'class' => Pillion\DmcpTool::class,
        //     'server_url' => 'https://dmcp-server.deno.dev/sse',
        // ],

    ],

    /*
    |--------------------------------------------------------------------------
    | Tools of this application
    |--------------------------------------------------------------------------
    |
    | Pillion discovers classes with Pillion\ToolInterface or the attribute
    | #[Pillion\AsTool] in the folders of `discover` (path => namespace); `classes` adds
    | more classes. `builtins` is a list of built-in tools, or true for calculator,
    | get_time, roll_dice and all `services` configured here (see docs/reference/built-in-tools.md).
    |
    */

    'tools' => [
        'discover' => [
            app_path('Tools') => 'App\\Tools',
        ],
        'classes' => [],
        'builtins' => true,
        'services' => [
            // 'get_weather' => [],                                            // Open-Meteo
            // 'web_search' => ['provider' => 'brave', 'api_key' => env('BRAVE_SEARCH_API_KEY')],
        ],
        'aliases' => [
            // 'time_tool' => 'get_time',
        ],
    ],

    /*
    |--------------------------------------------------------------------------
    | Models
    |--------------------------------------------------------------------------
    |
    | The models by name. A model sees a tool if the model has `function_calling` and if
    | `enabled_tools` is empty or contains the tool; tools of MCP servers also require `mcp`.
    | Pillion looks up other models in config/model_lists/*.php, by `id`. `default_model`
    | applies to all remaining models, and therefore to every name passed to forModel():
    | if you enable tools there, list them in `enabled_tools`.
    |
    | For Pillion::chat(), an entry also sets the endpoint: `provider` (openai,
    | openai-responses, anthropic, google), or `base_url` and `api` for a compatible
    | endpoint; `model` (the provider's model name, if different) and `api_key`.
    |
    */

    'models' => [
        // 'gpt-4.1' => ['provider' => 'openai', 'function_calling' => true, 'mcp' => true, 'enabled_tools' => []],
        // 'local' => ['base_url' => 'http://127.0.0.1:11434/v1', 'model' => 'llama3.2', 'api_key' => env('LLM_KEY'), 'function_calling' => true],
    ],

    'model_lists' => 'model_lists',

    'default_model' => [
        'provider' => 'openai',
        'function_calling' => false,
        'mcp' => false,
        'enabled_tools' => [],
    ],

    /*
    |--------------------------------------------------------------------------
    | Chats
    |--------------------------------------------------------------------------
    |
    | Settings of Pillion::chat(). `in` is process (with the tools of this application;
    | requires the extension) or sidecar (with the sidecar's models and tools). `model` is the
    | default model, null for none. `options` are the options of Pillion\ToolAwareChat: system,
    | temperature, max_output_tokens, timeout in seconds, ...
    |
    */

    'chat' => [
        'in' => env('PILLION_CHAT_IN', 'process'),
        'model' => env('PILLION_CHAT_MODEL'),
        'options' => [],
    ],

    /*
    |--------------------------------------------------------------------------
    | Approvals
    |--------------------------------------------------------------------------
    |
    | `policy` is auto (calls need no approval), always-ask (every call needs approval) or
    | trusted-only (calls need approval unless `trusted_tools` contains the tool). `tools`
    | overrides the policy for single tools. The `require_approval` of a server applies to
    | the server's tools, unless `tools` contains the tool. A tool whose definition requires
    | confirmation always needs approval. An approval is valid for one call of the tool with
    | exactly the same arguments by the same user.
    |
    */

    'approvals' => [
        'policy' => env('PILLION_APPROVALS', 'auto'),
        'trusted_tools' => [],
        'tools' => [
            // 'delete_account' => 'always-ask',
        ],
        'driver' => env('PILLION_APPROVALS_DRIVER', 'cache'),   // where approvals are stored: cache or database
        'store' => env('PILLION_APPROVALS_STORE'),              // a cache store shared by all workers; null for the default
        'connection' => env('PILLION_APPROVALS_CONNECTION'),    // a database connection; null for the default
        'table' => 'pillion_approvals',
        'expires_after' => 3600,                                // seconds until an undecided or unused approval expires
        'max_pending' => 1000,                                  // maximum number of pending approvals per tenant; null for no limit
        'max_pending_per_user' => 100,                          // maximum number of pending approvals per user; null for no limit
    ],

    /*
    |--------------------------------------------------------------------------
    | Limits
    |--------------------------------------------------------------------------
    |
    | Times are in seconds. Rate limits apply per user across all workers (Pillion counts in
    | the cache): `default`, `tools` by name and `servers` by name, each with `per_minute`,
    | `per_hour` or `per_day`, null for no limit. `max_rounds` and `max_calls` limit the rounds
    | of tool calls and the single calls of a conversation; at a limit, the model must answer
    | without tools.
    |
    */

    'limits' => [
        'timeout' => 30,
        'tool_timeouts' => [],
        'max_concurrent' => 5,          // maximum number of concurrent calls of each MCP server, and of all tools without a server
        // 'max_concurrent_total' => 20, // maximum number of concurrent calls in total: by default four times max_concurrent, at least 20;
                                        // one slot is reserved for tools without a server
        'server_concurrency' => [],     // overrides max_concurrent for single servers, by label
        'tool_concurrency' => [],
        'queue_timeout' => 30,
        'max_output_bytes' => 16 * 1024 * 1024,
        'max_rounds' => 5,
        'max_calls' => 5,
        'rate_limits' => [
            // 'default' => ['per_minute' => 60],
        ],
    ],

    /*
    |--------------------------------------------------------------------------
    | Cache
    |--------------------------------------------------------------------------
    |
    | Pillion caches the tool lists of the servers for `ttl` seconds (0 disables the cache),
    | separately for each tenant and for each user with a token of their own. `store` is a
    | cache store, null for the default. Unreachable servers are skipped for `retry_after`
    | seconds, so that they do not slow down every request.
    |
    */

    'cache' => [
        'store' => env('PILLION_CACHE_STORE'),
        'ttl' => 300,
        'retry_after' => 30,
    ],

    /*
    |--------------------------------------------------------------------------
    | The sidecar
    |--------------------------------------------------------------------------
    |
    | The socket of `pillion serve` for the whole application; null for the default socket.
    | `timeout` is the timeout of Pillion::sidecar(), in seconds. With `register`, models also
    | see the tools of the sidecar's MCP servers.
    |
    */

    'sidecar' => [
        'socket' => env('PILLION_SOCKET'),
        'timeout' => 60,
        'register' => false,
    ],

    /*
    |--------------------------------------------------------------------------
    | The console
    |--------------------------------------------------------------------------
    |
    | The pages of the sidecar's console in this application, for users who pass the gate
    | `viewPillion` (by default: all visitors in the environment `local`, no visitors in other
    | environments). `path` is the path of the pages, null for no pages; `domain` is the domain of
    | the routes, null for every domain. `middleware` must start a session. An open page that
    | updates itself occupies a worker of php-fpm: after `stream_seconds`, the browser connects
    | again; 0 switches live updates off.
    |
    */

    'console' => [
        'path' => env('PILLION_CONSOLE_PATH', 'pillion'),
        'domain' => env('PILLION_CONSOLE_DOMAIN'),
        'middleware' => ['web'],
        'stream_seconds' => 60,
    ],

    /*
    |--------------------------------------------------------------------------
    | Log
    |--------------------------------------------------------------------------
    |
    | A channel of config/logging.php, null for the application's default channel, false to
    | disable logging. The channel `pillion` (storage/logs/pillion.log) exists even if
    | logging.php does not define it.
    |
    */

    'log' => [
        'channel' => env('PILLION_LOG_CHANNEL'),
        'level' => env('PILLION_LOG_LEVEL', 'info'),    // level of the channel `pillion`
    ],

    /*
    |--------------------------------------------------------------------------
    | Connections
    |--------------------------------------------------------------------------
    |
    | MCP sessions stay open in the worker after a request, which makes the next request fast.
    | With true, Pillion closes the sessions at the end of each request, job or command.
    |
    */

    'disconnect_on_terminate' => false,

];
