<?php

namespace Pillion;

/**
 * The base of MCP tools written in PHP.
 */
abstract class MCPToolAdapter implements MCPToolInterface
{
    /** @var array<string, mixed> */
    protected array $serverConfig = [];
    /** Whether a server is set. */
    protected bool $serverAvailable = false;
    /** The client, unconnected until its first call; null without a server. */
    protected ?MCPSSEClient $client = null;

    /**
     * @param array{server_url?: string, server_label?: string, timeout?: int|float, api_key?: string, options?: array<string, mixed>, require_approval?: 'always'|'prompt'|'never'|array{always?: array{tool_names: list<string>}, never?: array{tool_names: list<string>}}, ...} $serverConfig
     *
     * @throws Exception\InvalidInputException when the URL or an option is not valid
     */
    public function __construct(#[\SensitiveParameter] array $serverConfig = [])
    {
    }

    public function getMCPServerConfig(): array
    {
    }

    public function isServerAvailable(): bool
    {
    }

    /** Always true, unless a subclass knows better. */
    public function isAvailableForProvider(string $providerClass): bool
    {
    }

    /** Only for models with `function_calling` and `mcp`, whose `enabled_tools` allow the name. */
    public function isEnabledForModel(array|object $model): bool
    {
    }

    /** Returns what dumps show: the properties, without the credentials of the server. */
    public function __debugInfo(): array
    {
    }
}
