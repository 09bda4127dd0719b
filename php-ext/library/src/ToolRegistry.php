<?php

declare(strict_types=1);

namespace Pillion;

use Pillion\Fallback\Argument;
use Pillion\Fallback\Builtins;
use Pillion\Fallback\Context;
use Pillion\Fallback\Executor\ExecutorOptions;
use Pillion\Fallback\Executor\SidecarExecutor;
use Pillion\Fallback\Failure;
use Pillion\Fallback\Json;
use Pillion\Fallback\McpServer;
use Pillion\Fallback\ProviderFormats;
use Pillion\Fallback\Registry\Capabilities;
use Pillion\Fallback\Registry\RequireApproval;
use Pillion\Fallback\Registry\SchemaCheck;
use Pillion\Fallback\Registry\ToolEntries;
use Pillion\Fallback\Registry\ToolEntry;
use Pillion\Fallback\Signature\Signature;
use Pillion\Fallback\Signature\Target;

/**
 * A set of tools, in the order of their registration.
 */
class ToolRegistry implements \Countable
{
    private readonly ToolEntries $entries;
    /** The executor that runs the calls of {@see ToolRegistry::execute()}. */
    private readonly SidecarExecutor $executor;

    public function __construct()
    {
        $this->entries = new ToolEntries();
        $this->executor = new SidecarExecutor($this->entries, new ExecutorOptions([]));
    }

    /**
     * Returns a new registry with `calculator`, `get_time` and `roll_dice`, and with the network tools
     * (`get_weather`, `web_search`) that `$services` names, even with empty settings. `get_weather` uses Open-Meteo by
     * default; `web_search` is not offered without a provider. The `timezone` of `get_time` applies to calls that name
     * no time zone. Aliases are `time_tool`, `weather_tool`, `weather` and `search_tool`.
     *
     * With the library, the sidecar's configuration sets the providers of network tools, and models see only the
     * network tools that the sidecar offers.
     *
     * @param array{get_time?: array{timezone?: string}, get_weather?: array{provider?: 'open-meteo'|'openweathermap'|'mock', api_key?: string, api_key_env?: string, base_url?: string, geocoding_url?: string, units?: 'celsius'|'fahrenheit', timeout?: int|float, egress?: array<string, mixed>}, web_search?: array{provider?: 'google'|'brave'|'searxng'|'mock', api_key?: string, api_key_env?: string, cx?: string, base_url?: string, timeout?: int|float, egress?: array<string, mixed>}} $services
     *
     * @throws Exception\InvalidInputException when a setting is invalid
     * @throws Exception\UnavailableException  with the library: for settings that are not empty, because the sidecar runs these tools with its own settings
     */
    public static function withBuiltins(#[\SensitiveParameter] array $services = []): ToolRegistry
    {
        $registry = new self();
        foreach ([...Builtins::all(), ...Builtins::createServiceTools($services)] as $tool) {
            $registry->register($tool);
        }
        foreach (Builtins::ALIASES as $alias => $tool) {
            if ($registry->has($tool)) {
                $registry->alias($alias, $tool);
            }
        }
        return $registry;
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
        if ($tool instanceof ToolDefinition) {
            if ($handler === null) {
                throw new \TypeError(__METHOD__ . '(): Argument #2 ($handler) must be of type callable for a ToolDefinition, null given');
            }
            $tool = new CallableTool($tool, $handler);
        }
        $entry = ToolEntry::forTool($tool);
        SchemaCheck::check([$entry]);
        $this->entries->add($entry, $replace);
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
        $entries = [];
        foreach (Target::findAttributed($objectOrClass) as $target) {
            $entry = ToolEntry::forTool(new CallableTool(self::createDefinition($target), $target->callable));
            $name = $entry->definition->name;
            if (isset($entries[$name]) || (!$replace && $this->entries->has($name))) {
                throw Failure::invalidInput("Tool '$name' already registered");
            }
            $entries[$name] = $entry;
        }
        SchemaCheck::check(array_values($entries));
        foreach ($entries as $entry) {
            $this->entries->add($entry, $replace);
        }
        return array_keys($entries);
    }

    /**
     * Registers all tools of an MCP server. A tool with an invalid name is skipped and logged to the client's logger,
     * or to PHP's error log without a logger. The client's callbacks handle requests that the server sends while a tool
     * runs.
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
        // A client has no approval policy, because only an array entry can set `require_approval`.
        $approval = RequireApproval::fromEntry(is_array($server) ? $server : []);
        $entries = array_map(ToolEntry::forTool(...), McpServer::forServer($server)->loadRegistryTools($prefix, $approval));
        foreach ($entries as $entry) {
            $name = $entry->definition->name;
            if (!$replace && $this->entries->has($name)) {
                throw Failure::invalidInput("Tool '$name' already registered");
            }
        }
        foreach ($entries as $entry) {
            $this->entries->add($entry, replace: true);
        }
        return array_map(static fn (ToolEntry $entry): string => $entry->definition->name, $entries);
    }

    /**
     * Adds `$alias` as another name of `$tool`.
     *
     * @throws Exception\InvalidInputException when the tool does not exist, or the alias is the name of a tool
     */
    public function alias(string $alias, string $tool): void
    {
        Argument::checkTexts([1 => $alias, 2 => $tool]);
        $this->entries->addAlias($alias, $tool);
    }

    /** Removes a tool. Returns whether the tool existed. */
    public function unregister(string $name): bool
    {
        return $this->entries->remove($name);
    }

    /** Returns whether a tool has this name or alias. */
    public function has(string $name): bool
    {
        return $this->entries->find($name) !== null;
    }

    /** Returns the tool with this name or alias. */
    public function get(string $name): ?ToolInterface
    {
        return $this->entries->find($name)?->tool;
    }

    /** @return array<string, ToolInterface> */
    public function getAll(): array
    {
        return $this->entries->tools();
    }

    /** @return array<string, MCPToolInterface> */
    public function getMCPTools(): array
    {
        return $this->entries->tools(static fn (ToolInterface $tool): bool => $tool instanceof MCPToolInterface);
    }

    public function count(): int
    {
        return count($this->entries->all());
    }

    /** @return list<string> in the order of their first tool */
    public function categories(): array
    {
        return array_values(array_unique(array_map(static fn (ToolEntry $entry): string => $entry->definition->category, $this->entries->all())));
    }

    /** @return list<array{type: 'function', function: array<string, mixed>}> OpenAI's nested form, `strict` only where it is true */
    public function getSchemas(?string $category = null): array
    {
        $definitions = [];
        foreach ($this->entries->all() as $entry) {
            if ($category === null || $entry->definition->category === $category) {
                $definitions[] = $entry->definition;
            }
        }
        return $definitions === [] ? [] : ProviderFormats::tools('openai', $definitions, alwaysStrict: false);
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
        Capabilities::fromModel($model);
        return $this->entries->tools(static fn (ToolInterface $tool): bool => $tool->isEnabledForModel($model));
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
        $capabilities = Capabilities::fromModel($model);
        $availableTools = $this->getAvailableForModel($model);
        $dropReasons = [];
        foreach (array_diff_key($this->entries->all(), $availableTools) as $name => $entry) {
            $dropReasons[$name] = $capabilities->hiddenReason($name, $entry->origin) ?? 'isEnabledForModel() returned false';
        }
        return $dropReasons;
    }

    /**
     * Returns the definitions of the tools that a model may see, except MCP tools that have no
     * server.
     *
     * @param array<string, mixed>|object $model
     *
     * @return list<ToolDefinition>
     *
     * @throws Exception\InvalidInputException
     */
    public function getDefinitionsForModel(array|object $model): array
    {
        $definitions = [];
        foreach ($this->getAvailableForModel($model) as $tool) {
            if (!$tool instanceof MCPToolInterface || $tool->isServerAvailable()) {
                $definitions[] = $tool->getDefinition();
            }
        }
        return $definitions;
    }

    /** @return array<string, ToolInterface> */
    public function getAvailableForProvider(string $providerClass): array
    {
        return $this->entries->tools(static fn (ToolInterface $tool): bool => $tool->isAvailableForProvider($providerClass));
    }

    /**
     * Runs one tool with the default options of {@see ToolExecutor}. Every failure becomes a failed result.
     *
     * @param array<string, mixed> $arguments
     */
    public function execute(string $toolName, array $arguments, string $toolCallId): ToolResult
    {
        $call = new ToolCall($toolCallId, $toolName, $arguments);
        Json::encode($arguments);
        if (!$this->has($toolName)) {
            return new ToolResult(
                $toolCallId,
                $toolName,
                ['error' => 'Tool not found'],
                false,
                "Tool '$toolName' is not registered",
                'not_found',
            );
        }
        return $this->executor->run([$call], Context::createEmpty(), false)[0];
    }

    private static function createDefinition(Target $target): ToolDefinition
    {
        return \Closure::bind(
            static fn (Signature $signature): ToolDefinition => ToolDefinition::fromSignature($signature),
            null,
            ToolDefinition::class,
        )(Signature::read($target));
    }
}
