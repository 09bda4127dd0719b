<?php

namespace Pillion;

/**
 * A set of tools, in the order of their registration.
 */
class ToolRegistry implements \Countable
{
    /** @var array<string, ToolInterface> */
    private array $tools = [];

    public function __construct()
    {
    }

    /**
     * Returns a new registry with `calculator`, `get_time` and `roll_dice`, and with the network tools
     * (`get_weather`, `web_search`) that `$services` names, even with empty settings. `get_weather` uses
     * Open-Meteo by default; `web_search` is not offered without a provider. The `timezone` of `get_time`
     * applies to calls that name no time zone. Aliases are `time_tool`, `weather_tool`, `weather` and
     * `search_tool`.
     *
     * @param array{get_time?: array{timezone?: string}, get_weather?: array{provider?: 'open-meteo'|'openweathermap'|'mock', api_key?: string, api_key_env?: string, base_url?: string, geocoding_url?: string, units?: 'celsius'|'fahrenheit', timeout?: int|float, egress?: array<string, mixed>}, web_search?: array{provider?: 'google'|'brave'|'searxng'|'mock', api_key?: string, api_key_env?: string, cx?: string, base_url?: string, timeout?: int|float, egress?: array<string, mixed>}} $services
     *
     * @throws Exception\InvalidInputException when a setting is invalid
     */
    public static function withBuiltins(#[\SensitiveParameter] array $services = []): ToolRegistry
    {
    }

    /**
     * @param ?callable $handler `fn(array $arguments, string $toolCallId): mixed`, only for a definition:
     *                           returns a {@see ToolResult} or any value that is convertible to JSON
     * @param bool      $replace whether to replace an existing tool with the same name
     *
     * @throws Exception\InvalidInputException when the name is taken, or the definition is not valid
     */
    public function register(ToolInterface|ToolDefinition $tool, ?callable $handler = null, bool $replace = false): void
    {
    }

    /**
     * Registers all methods with the attribute {@see AsTool}, or the class itself if it has the attribute.
     * Registers either all of these tools or none.
     *
     * @param object|class-string $objectOrClass a class is instantiated if a method needs an object
     * @param bool                $replace       whether to replace existing tools with the same names
     *
     * @return list<string> the names of the tools
     *
     * @throws Exception\InvalidInputException when nothing has the attribute, a method cannot be a tool, or
     *                                         a name is taken
     */
    public function registerObject(object|string $objectOrClass, bool $replace = false): array
    {
    }

    /**
     * Registers all tools of an MCP server. A tool with an invalid name is skipped and logged to the client's
     * logger, or to PHP's error log without a logger. The client's callbacks answer requests that the server
     * sends while a tool runs.
     *
     * @param MCPSSEClient|McpClient|array{server_url: string, server_label?: string, timeout?: int|float, api_key?: string, options?: array<string, mixed>, require_approval?: 'always'|'prompt'|'never'|array{always?: array{tool_names: list<string>}, never?: array{tool_names: list<string>}}, ...} $server
     *        `require_approval` of an entry is the approval policy of the server and uses the server's tool names
     * @param string $prefix prepended to the names, to avoid conflicts between servers
     *
     * @return list<string> the names of the tools
     *
     * @throws Exception\InvalidInputException when a name is taken, or the entry is not valid
     * @throws Exception\PillionException      when the server does not return its tools
     */
    public function registerMcpServer(#[\SensitiveParameter] MCPSSEClient|McpClient|array $server, string $prefix = '', bool $replace = false): array
    {
    }

    /**
     * Adds `$alias` as another name of `$tool`.
     *
     * @throws Exception\InvalidInputException when the tool does not exist, or the alias is the name of a tool
     */
    public function alias(string $alias, string $tool): void
    {
    }

    /** Removes a tool. Returns whether the tool existed. */
    public function unregister(string $name): bool
    {
    }

    /** Returns whether a tool has this name or alias. */
    public function has(string $name): bool
    {
    }

    /** Returns the tool with this name or alias. */
    public function get(string $name): ?ToolInterface
    {
    }

    /** @return array<string, ToolInterface> */
    public function getAll(): array
    {
    }

    /** @return array<string, MCPToolInterface> */
    public function getMCPTools(): array
    {
    }

    public function count(): int
    {
    }

    /** @return list<string> in the order of their first tool */
    public function categories(): array
    {
    }

    /** @return list<array{type: 'function', function: array<string, mixed>}> OpenAI's nested form, `strict` only where it is true */
    public function getSchemas(?string $category = null): array
    {
    }

    /**
     * Returns the tools whose {@see ToolInterface::isEnabledForModel()} returns true.
     *
     * @param array<string, mixed>|object $model a model configuration with the key `tools`; or the value of that key
     *        (`function_calling`, `mcp`, `enabled_tools`); or an object with `getTools()` or with these properties
     *
     * @return array<string, ToolInterface>
     *
     * @throws Exception\InvalidInputException when a value of the configuration has the wrong type
     */
    public function getAvailableForModel(array|object $model): array
    {
    }

    /**
     * Returns the tools that the model does not see, with the reasons.
     *
     * @param array<string, mixed>|object $model
     *
     * @return array<string, string> the reasons by tool name
     *
     * @throws Exception\InvalidInputException
     */
    public function getDroppedForModel(array|object $model): array
    {
    }

    /**
     * Returns the definitions for a model, without MCP tools that have no server.
     *
     * @param array<string, mixed>|object $model
     *
     * @return list<ToolDefinition>
     *
     * @throws Exception\InvalidInputException
     */
    public function getDefinitionsForModel(array|object $model): array
    {
    }

    /** @return array<string, ToolInterface> */
    public function getAvailableForProvider(string $providerClass): array
    {
    }

    /**
     * Runs one tool with the default options of {@see ToolExecutor}. Every failure becomes a failed result.
     *
     * @param array<string, mixed> $arguments
     */
    public function execute(string $toolName, array $arguments, string $toolCallId): ToolResult
    {
    }
}
