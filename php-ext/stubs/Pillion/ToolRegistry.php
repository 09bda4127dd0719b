<?php

namespace Pillion;

/**
 * The tools there are, in the order in which they were registered.
 */
class ToolRegistry implements \Countable
{
    /** @var array<string, ToolInterface> */
    private array $tools = [];

    public function __construct()
    {
    }

    /**
     * A new registry with `calculator`, `get_time` and `roll_dice`,
     * and those tools that ask a service over the network for which there are settings, which may be empty:
     * `get_weather` asks Open-Meteo unless they say otherwise, `web_search` is not offered without a provider.
     * The `timezone` of `get_time` is that of a call that names none. Aliases are `time_tool`, `weather_tool`, `weather`
     * and `search_tool`.
     *
     * @param array{get_time?: array{timezone?: string}, get_weather?: array{provider?: 'open-meteo'|'openweathermap'|'mock', api_key?: string, api_key_env?: string, base_url?: string, geocoding_url?: string, units?: 'celsius'|'fahrenheit', timeout?: int|float, egress?: array<string, mixed>}, web_search?: array{provider?: 'google'|'brave'|'searxng'|'mock', api_key?: string, api_key_env?: string, cx?: string, base_url?: string, timeout?: int|float, egress?: array<string, mixed>}} $services
     *
     * @throws Exception\InvalidInputException for a setting that makes no sense
     */
    public static function withBuiltins(#[\SensitiveParameter] array $services = []): ToolRegistry
    {
    }

    /**
     * @param ?callable $handler `fn(array $arguments, string $toolCallId): mixed`, for a definition only:
     *                           returns a {@see ToolResult} or any value that is JSON
     * @param bool      $replace whether it may take the place of a tool with its name
     *
     * @throws Exception\InvalidInputException when the name is taken, or the definition is not valid
     */
    public function register(ToolInterface|ToolDefinition $tool, ?callable $handler = null, bool $replace = false): void
    {
    }

    /**
     * Registers all methods that have the attribute {@see AsTool}, or the class if it has it; all or none.
     *
     * @param object|class-string $objectOrClass of a class an object is made if a method needs one
     * @param bool                $replace       whether they may take the place of tools with their names
     *
     * @return list<string> the names
     *
     * @throws Exception\InvalidInputException when nothing has the attribute, a method cannot be a tool, or
     *                                         a name is taken
     */
    public function registerObject(object|string $objectOrClass, bool $replace = false): array
    {
    }

    /**
     * Asks an MCP server for its tools and registers them all. A tool with an illegal name
     * is left out, which goes to the client's logger, or else to PHP's error log. What the server
     * asks while one of its tools runs is answered by the callbacks of the client.
     *
     * @param MCPSSEClient|McpClient|array{server_url: string, server_label?: string, timeout?: int|float, api_key?: string, options?: array<string, mixed>, require_approval?: 'always'|'prompt'|'never'|array{always?: array{tool_names: list<string>}, never?: array{tool_names: list<string>}}, ...} $server
     *        `require_approval` of an entry counts as a policy of the server, by the server's names of its tools
     * @param string $prefix goes before the names, so that those of two servers do not meet
     *
     * @return list<string> the names
     *
     * @throws Exception\InvalidInputException when a name is taken, or the entry is not valid
     * @throws Exception\PillionException      when the server cannot be asked
     */
    public function registerMcpServer(#[\SensitiveParameter] MCPSSEClient|McpClient|array $server, string $prefix = '', bool $replace = false): array
    {
    }

    /**
     * Lets calls name `$tool` as `$alias` too.
     *
     * @throws Exception\InvalidInputException when there is no such tool, or the alias is the name of one
     */
    public function alias(string $alias, string $tool): void
    {
    }

    /** Removes a tool; says whether it was there. */
    public function unregister(string $name): bool
    {
    }

    /** Whether there is a tool of that name or alias. */
    public function has(string $name): bool
    {
    }

    /** The tool of that name or alias. */
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
     * The tools whose {@see ToolInterface::isEnabledForModel()} says yes.
     *
     * @param array<string, mixed>|object $model a model configuration with the key `tools`; or that key's
     *        value (`function_calling`, `mcp`, `enabled_tools`); or an object with `getTools()` or such properties
     *
     * @return array<string, ToolInterface>
     *
     * @throws Exception\InvalidInputException when the configuration has a value of a wrong type
     */
    public function getAvailableForModel(array|object $model): array
    {
    }

    /**
     * The other tools, and why the model does not see them.
     *
     * @param array<string, mixed>|object $model
     *
     * @return array<string, string> reasons by name
     *
     * @throws Exception\InvalidInputException
     */
    public function getDroppedForModel(array|object $model): array
    {
    }

    /**
     * The definitions for a model, without MCP tools that have no server.
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
     * Runs one tool with the defaults of {@see ToolExecutor}. Every failure is a failed result.
     *
     * @param array<string, mixed> $arguments
     */
    public function execute(string $toolName, array $arguments, string $toolCallId): ToolResult
    {
    }
}
