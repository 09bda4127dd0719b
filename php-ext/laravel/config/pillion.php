<?php

/*
 * Everything here may be cached (`config:cache`): no closures. What needs code (who the user is,
 * a user's own token, the tenant) is set in a service provider; docs/LARAVEL.md shows how.
 */

return [

    /*
    |--------------------------------------------------------------------------
    | MCP servers
    |--------------------------------------------------------------------------
    |
    | By name. A server is a URL or a command; nothing is contacted before a tool
    | is needed. `Pillion::server('name')` speaks to one directly; with `register`
    | its tools are offered to models that have the `mcp` flag.
    |
    */

    'servers' => [

        // 'everything' => [
        //     'url' => env('MCP_EVERYTHING_URL', 'http://127.0.0.1:3001/mcp'),
        //     'token' => env('MCP_EVERYTHING_TOKEN'),   // a bearer token
        //     'timeout' => 30,                          // seconds for one call
        //     'register' => true,                       // offer its tools to models
        //     'prefix' => 'everything_',                // goes before their names; '' for none
        //     'only' => [],                             // these tools alone (the server's names) ...
        //     'except' => [],                           // ... or all but these
        //     'require_approval' => 'never',            // never, always, prompt
        //     'options' => [],                          // what McpClient takes: headers, transport, ...
        // ],

        // 'files' => [
        //     'command' => ['npx', '-y', '@modelcontextprotocol/server-filesystem', storage_path('app')],
        //     'env' => [],
        // ],

        // A tool class of your own that speaks to the server (Pillion\MCPToolAdapter): it gets the
        // whole entry, and decides what goes in and out.
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
    | Classes with Pillion\ToolInterface or the attribute #[Pillion\AsTool] are found
    | in the folders of `discover` (path => namespace); `classes` names others.
    | `builtins` is true for all of calculator, get_time and roll_dice, and for the
    | `services` that have settings here (docs/BUILTINS.md), or a list.
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
    | What a model can do
    |--------------------------------------------------------------------------
    |
    | By model: a tool is visible if the model has `function_calling`; a tool of an MCP
    | server if it has `mcp` too; and if `enabled_tools` is empty or names it. A model that
    | is not here is looked up in config/model_lists/*.php, by `id`. One that is not there
    | either sees no tools, unless `default_model` says otherwise: what is allowed there is
    | allowed to every name that reaches forModel(), so name the tools in `enabled_tools`.
    |
    | For Pillion::chat() an entry says where the model is: `provider` (openai, openai-responses,
    | anthropic, google), or the `base_url` of what speaks like one of them (`api`), `model` (the
    | provider's name of it, where that is another) and `api_key`.
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
    | Of Pillion::chat(). `in` is process (the tools of this application; needs the extension) or
    | sidecar (its models and tools). `model` is that of whoever names none. `options` are those
    | of Pillion\ToolAwareChat: system, temperature, max_output_tokens, timeout in seconds, ...
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
    | `policy`: auto (nobody is asked), always-ask, or trusted-only (asks unless the tool is
    | trusted). `tools` says otherwise for single tools. A definition that requires
    | confirmation asks in any case; the `require_approval` of a server counts for its tools
    | unless `tools` names them.
    | An approval holds for one run of that tool with exactly those arguments by that user.
    |
    */

    'approvals' => [
        'policy' => env('PILLION_APPROVALS', 'auto'),
        'trusted_tools' => [],
        'tools' => [
            // 'delete_account' => 'always-ask',
        ],
        'driver' => env('PILLION_APPROVALS_DRIVER', 'cache'),   // cache, database
        'store' => env('PILLION_APPROVALS_STORE'),              // a cache store that all workers share
        'connection' => env('PILLION_APPROVALS_CONNECTION'),    // a database connection
        'table' => 'pillion_approvals',
        'expires_after' => 3600,                                // seconds until an undecided or unused one lapses
        'max_pending' => 1000,                                  // undecided calls of a tenant; null for no limit
        'max_pending_per_user' => 100,                          // undecided calls of one user; null for no limit
    ],

    /*
    |--------------------------------------------------------------------------
    | Limits
    |--------------------------------------------------------------------------
    |
    | Times are in seconds. Rate limits count per user, in the cache, for all workers:
    | `every_tool`, `tools` by name and `servers` by name, each with `per_minute`, `per_hour`
    | or `per_day`. `max_rounds` and `max_calls` are how often a conversation calls tools, in
    | rounds and in single calls; then the model has to answer in words.
    |
    */

    'limits' => [
        'timeout' => 30,
        'tool_timeouts' => [],
        'max_concurrent' => 5,          // concurrent calls of each MCP server, and of the tools of no server
        'max_concurrent_total' => 20,   // concurrent calls in total; one slot is reserved for tools of no server
        'server_concurrency' => [],     // overrides max_concurrent for single servers, by label
        'tool_concurrency' => [],
        'queue_timeout' => 30,
        'max_output_bytes' => 16 * 1024 * 1024,
        'max_rounds' => 5,
        'max_calls' => 5,
        'rate_limits' => [
            // 'every_tool' => ['per_minute' => 60],
        ],
    ],

    /*
    |--------------------------------------------------------------------------
    | Cache
    |--------------------------------------------------------------------------
    |
    | Lists of the servers' tools, for `ttl` seconds (0: none are kept), apart for each tenant
    | and for each user with a token of their own. A server that could not be asked is left
    | alone for `retry_after` seconds, so that it does not slow down each request.
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
    | Where `pillion serve` listens; null for its default path. With `register` its tools are
    | offered to models like those of this application.
    |
    */

    'sidecar' => [
        'socket' => env('PILLION_SOCKET'),
        'timeout' => 60,
        'register' => false,
    ],

    /*
    |--------------------------------------------------------------------------
    | Log
    |--------------------------------------------------------------------------
    |
    | A channel of config/logging.php, null for the application's default, false for none.
    | The channel `pillion` is there even if logging.php does not have it: storage/logs/pillion.log.
    |
    */

    'log' => [
        'channel' => env('PILLION_LOG_CHANNEL'),
        'level' => env('PILLION_LOG_LEVEL', 'info'),    // of the channel `pillion`
    ],

    /*
    |--------------------------------------------------------------------------
    | Connections
    |--------------------------------------------------------------------------
    |
    | Sessions stay warm in the worker after a request, which is what makes the next one fast.
    | True says goodbye to the servers when a request or a command ends.
    |
    */

    'disconnect_on_terminate' => false,

];
