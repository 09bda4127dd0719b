<?php

declare(strict_types=1);

namespace Pillion\Laravel\Testing;

use Pillion\Laravel\Servers\ServerConfig;
use Pillion\ToolCall;
use Pillion\ToolResult;

/** Calls through `Pillion::server()`. Their fakes may have the registry's name or the server's. */
final class FakeServerCalls
{
    public function __construct(private readonly PillionFake $fake)
    {
    }

    /** Null when the call is to be made. */
    public function call(ServerConfig $server, ToolCall $call): ?ToolResult
    {
        $full = $server->prefix . $call->name;
        foreach ([$full, $call->name] as $name) {
            if ($this->fake->handles($name)) {
                return $this->fake->answer(new ToolCall($call->id, $name, $call->arguments), $server->name);
            }
        }
        $this->fake->stray(new ToolCall($call->id, $full, $call->arguments), $server->name);
        return null;
    }

    /** @return array<string, mixed> a result as a server would send it */
    public static function onTheWire(ToolResult $result): array
    {
        $structured = $result->structuredContent();
        return ['content' => $result->content()]
            + ($structured === null ? [] : ['structuredContent' => $structured])
            + ($result->success ? [] : ['isError' => true]);
    }
}
