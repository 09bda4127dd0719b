<?php

declare(strict_types=1);

namespace Pillion\Tests\Support;

/** The conforming MCP server, one for the whole run. */
final class McpServer
{
    private static ?ServerScript $shared = null;

    public static function url(): string
    {
        self::$shared ??= new ServerScript(['python3'], 'mcp.py');
        return 'http://127.0.0.1:' . self::$shared->firstLine . '/mcp';
    }
}
