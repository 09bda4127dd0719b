<?php

return [
    [
        'active' => true,
        'id' => 'meta-llama-3.1-8b-instruct',
        'label' => 'Meta Llama 3.1 8B Instruct',
        // Models without the `mcp` flag do not see the tools of MCP servers.
        'tools' => [
            'function_calling' => true,
            'enabled_tools' => ['calculator'],
        ],
    ],
    [
        'active' => true,
        'id' => 'meta-llama-3.3-70b-instruct',
        'label' => 'Meta Llama 3.3 70B Instruct',
        'tools' => [
            'function_calling' => true,
            'mcp' => true,
            'enabled_tools' => ['dmcp_roll_dice', 'my_mcp_tool', 'calculator'],
        ],
    ],
];
