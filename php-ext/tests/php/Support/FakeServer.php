<?php

declare(strict_types=1);

namespace Pillion\Tests\Support;

/** The fake MCP server of the legacy dialect (POST with an event stream), one for the whole run. */
final class FakeServer
{
    private static ?ServerScript $shared = null;

    public static function url(): string
    {
        self::$shared ??= new ServerScript(['python3'], 'post_sse.py');
        return 'http://127.0.0.1:' . self::$shared->firstLine . '/sse';
    }
}
