<?php

declare(strict_types=1);

namespace Pillion\Laravel\Testing;

use Pillion\Laravel\Servers\ServerConfig;
use Pillion\ToolCall;
use Pillion\ToolResult;

/**
 * Fakes calls through `Pillion::server()`. A fake may be defined for the tool's name in the
 * registry or for its name on the server.
 */
final class FakeServerCalls
{
    public function __construct(private readonly PillionFake $fake)
    {
    }

    /** Returns the faked result; null if the tool has no fake and the server must run the call. */
    public function call(ServerConfig $server, ToolCall $call): ?ToolResult
    {
        $names = new ToolNames($server->prefix . $call->name, $call->name);
        if ($this->fake->hasFakeFor($names)) {
            return $this->fake->resultFor($names, $call, $server->name);
        }
        $this->fake->recordStrayCall($names, $call, $server->name);
        return null;
    }

    /** @return array<string, mixed> the result as a server would send it */
    public static function toMcpResult(ToolResult $result): array
    {
        $structuredContent = $result->structuredContent();
        return ['content' => $result->content()]
            + ($structuredContent === null ? [] : ['structuredContent' => $structuredContent])
            + ($result->success ? [] : ['isError' => true]);
    }
}
