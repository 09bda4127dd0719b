<?php

declare(strict_types=1);

namespace Pillion;

use Pillion\Fallback\EntryRedactor;
use Pillion\Fallback\McpEntry;
use Pillion\Fallback\Registry\Capabilities;
use Pillion\Fallback\Registry\ToolOrigin;

/**
 * The base class of MCP tools written in PHP.
 */
abstract class MCPToolAdapter implements MCPToolInterface
{
    /** @var array<string, mixed> */
    protected array $serverConfig = [];
    /** Whether the tool belongs to an MCP server. */
    protected bool $serverAvailable = false;
    /** The client, which connects on its first call; null without a server. */
    protected ?MCPSSEClient $client = null;

    /**
     * @param array{server_url?: string, server_label?: string, timeout?: int|float, api_key?: string, options?: array<string, mixed>, require_approval?: 'always'|'prompt'|'never'|array{always?: array{tool_names: list<string>}, never?: array{tool_names: list<string>}}, ...} $serverConfig
     *
     * @throws Exception\InvalidInputException when the URL or an option is not valid
     */
    public function __construct(#[\SensitiveParameter] array $serverConfig = [])
    {
        $client = McpEntry::client($serverConfig);
        $this->serverConfig = $serverConfig;
        $this->serverAvailable = $client !== null;
        $this->client = $client;
    }

    public function getMCPServerConfig(): array
    {
        return $this->serverConfig;
    }

    public function isServerAvailable(): bool
    {
        return $this->serverAvailable;
    }

    /**
     * Returns whether a provider, named by its class, can use the tool. The default is true for
     * every provider; subclasses may override this method.
     */
    public function isAvailableForProvider(string $providerClass): bool
    {
        return true;
    }

    /**
     * Returns whether a model may see the tool: true only for models with `function_calling` and
     * `mcp` whose `enabled_tools` allow this tool.
     */
    public function isEnabledForModel(array|object $model): bool
    {
        return Capabilities::fromModel($model)->hiddenReason($this->getName(), ToolOrigin::fromEntry($this->serverConfig)) === null;
    }

    /** Returns what dumps show: the properties, without the credentials of the server. */
    public function __debugInfo(): array
    {
        return array_replace((array) $this, ["\0*\0serverConfig" => EntryRedactor::redact($this->serverConfig)]);
    }
}
