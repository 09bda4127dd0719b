<?php

/**
 * The classes of the extension `pillion`, for editors and static analysis. Do not load it:
 * the extension has the real ones. A test holds the two together.
 */

namespace Pillion {

    /**
     * A tool: what a model can call.
     */
    interface ToolInterface
    {
        /** The name that the model calls it by: `^[a-zA-Z_][a-zA-Z0-9_-]*$`. */
        public function getName(): string;

        /** The definition; its name must be that of {@see getName()}. */
        public function getDefinition(): ToolDefinition;

        /**
         * Runs the tool. A failure is a result with `success: false`, or an exception, which
         * becomes one.
         *
         * @param array<string, mixed> $arguments validated against the definition, with
         *                                        defaults filled in, when an executor calls
         */
        public function execute(array $arguments, string $toolCallId): ToolResult;

        /** Whether the tool can be used with a provider, given by the name of its class. */
        public function isAvailableForProvider(string $providerClass): bool;

        /**
         * Whether a model may see the tool.
         *
         * @param array<string, mixed>|object $model see {@see ToolRegistry::getAvailableForModel()}
         */
        public function isEnabledForModel(array|object $model): bool;
    }

    /**
     * A tool whose work is done by an MCP server.
     */
    interface MCPToolInterface extends ToolInterface
    {
        /** @return array<string, mixed> the server entry: `server_url`, `server_label`, ... */
        public function getMCPServerConfig(): array;

        /** A word such as `gaming` or `web`. */
        public function getMCPCategory(): string;

        /** Whether a server is set. No I/O: {@see MCPSSEClient::isAvailable()} asks the server. */
        public function isServerAvailable(): bool;
    }

    /**
     * What a model and the executor need to know of a tool.
     */
    class ToolDefinition
    {
        public readonly string $name;
        public readonly string $description;
        /** @var array<string, mixed> a JSON Schema of type object */
        public readonly array $parameters;
        public readonly bool $strict;
        public readonly string $category;
        public readonly bool $requiresConfirmation;
        public readonly float $cooldownSeconds;

        /**
         * @param array<string, mixed>|list<array{name: string, type: string, description?: string, required?: bool, default?: mixed, enum?: list<mixed>}> $parameters
         *        a JSON Schema of type object, or a list of parameters, of which one is made;
         *        `required` is true unless said otherwise
         * @param bool      $strict               whether providers should hold the model to the schema exactly
         * @param bool      $requiresConfirmation whether somebody has to approve each call
         * @param int|float $cooldownSeconds      how long one user waits between two calls
         *
         * @throws Exception\InvalidInputException when the name, the description or the parameters are not valid
         */
        public function __construct(
            string $name,
            string $description,
            array $parameters = [],
            bool $strict = false,
            string $category = 'general',
            bool $requiresConfirmation = false,
            int|float $cooldownSeconds = 0,
        ) {
        }

        /**
         * OpenAI's chat completions. In the formats an empty map is a `stdClass`, so that it
         * stays a map in JSON.
         *
         * @return array{type: 'function', function: array{name: string, description: string, parameters: array<string, mixed>, strict: bool}}
         */
        public function toOpenAiFormat(): array
        {
        }

        /**
         * OpenAI's Responses.
         *
         * @return array{type: 'function', name: string, description: string, parameters: array<string, mixed>, strict: bool}
         */
        public function toOpenAiResponsesFormat(): array
        {
        }

        /**
         * An entry of Google's `functionDeclarations`, with the schema rewritten into what
         * Gemini takes.
         *
         * @return array{name: string, description: string, parameters: array<string, mixed>}
         */
        public function toGoogleFormat(): array
        {
        }

        /** @return array{name: string, description: string, input_schema: array<string, mixed>} */
        public function toAnthropicFormat(): array
        {
        }

        /** @return array{name: string, description: string, parameters: array<string, mixed>, strict: bool} */
        public function toArray(): array
        {
        }
    }

    /**
     * A call as a model asked for it. As JSON it has OpenAI's form.
     */
    class ToolCall implements \JsonSerializable
    {
        public readonly string $id;
        public readonly string $name;
        /** @var array<string, mixed>|string an array, or a string of JSON as models give it */
        public readonly array|string $arguments;
        public readonly string $type;
        public readonly ?int $index;

        /** @param array<string, mixed>|string $arguments */
        public function __construct(
            string $id,
            string $name,
            array|string $arguments = [],
            string $type = 'function',
            ?int $index = null,
        ) {
        }

        /**
         * @param array{id: string, name?: string, arguments?: array<string, mixed>|string, index?: int, function?: array{name: string, arguments?: array<string, mixed>|string}} $call
         *        the flat form, or OpenAI's with the name and arguments under `function`
         *
         * @throws Exception\InvalidInputException when the id or the name is missing
         */
        public static function fromArray(array $call): ToolCall
        {
        }

        /** @return array{id: string, type: string, name: string, arguments: array<string, mixed>|string, index: ?int} */
        public function toArray(): array
        {
        }

        /**
         * @return array{id: string, type: string, function: array{name: string, arguments: string}}
         *
         * @throws Exception\InvalidInputException when the arguments are no JSON
         */
        public function jsonSerialize(): array
        {
        }
    }

    /**
     * The one outcome of a call.
     */
    class ToolResult
    {
        public readonly string $toolCallId;
        public readonly string $toolName;
        /** What the model reads. */
        public readonly mixed $result;
        public readonly bool $success;
        public readonly ?string $error;
        /**
         * @var ?string one of `invalid_input`, `not_found`, `rate_limited`, `timeout`, `approval_required`,
         *              `denied`, `unavailable`, `cancelled`, `internal_error`
         */
        public readonly ?string $errorCode;
        /** What programs read, where it differs from the result. */
        public readonly mixed $data;
        /** @var array<string, mixed> facts about the run; `execution_time` is in seconds */
        public readonly array $metadata;

        /** @param array<string, mixed> $metadata */
        public function __construct(
            string $toolCallId,
            string $toolName,
            mixed $result,
            bool $success = true,
            ?string $error = null,
            ?string $errorCode = null,
            mixed $data = null,
            array $metadata = [],
        ) {
        }

        /**
         * The text for the model: the result, or `Error: ` and the error.
         *
         * @throws Exception\InvalidInputException when the result is no JSON
         */
        public function toMessage(): string
        {
        }

        /**
         * The message of role `tool`. The content is the result if it is text, else its JSON.
         *
         * @return array{role: 'tool', tool_call_id: string, content: string}
         *
         * @throws Exception\InvalidInputException when the result is no JSON
         */
        public function toMessageFormat(): array
        {
        }

        /** @return array{tool_call_id: string, tool_name: string, result: mixed, success: bool, error: ?string, error_code: ?string, data: mixed, metadata: array<string, mixed>} */
        public function toArray(): array
        {
        }
    }

    /**
     * An MCP server. Sessions belong to the process: a client for the same server with the
     * same configuration and credentials finds the session warm, also in a later request of
     * an FPM worker.
     */
    class MCPSSEClient
    {
        /**
         * Does no I/O.
         *
         * @param int|float            $timeout seconds for one call, with all it does
         * @param ?string              $apiKey  goes out as a bearer token
         * @param array<string, mixed> $options see docs/PHP.md
         *
         * @throws Exception\InvalidInputException when the URL or an option is not valid
         */
        public function __construct(
            string $serverUrl,
            int|float $timeout = 30,
            #[\SensitiveParameter]
            ?string $apiKey = null,
            #[\SensitiveParameter]
            array $options = [],
        ) {
        }

        /**
         * Sends any request; returns the JSON-RPC `result` unchanged, objects as associative arrays.
         *
         * @param array<string, mixed> $params
         *
         * @throws Exception\TransportException     when the server cannot be reached or answers with nonsense
         * @throws Exception\TimeoutException
         * @throws Exception\JsonRpcException       when the server answers with an error
         * @throws Exception\RateLimitedException   when the server answers with HTTP 429
         * @throws Exception\InvalidInputException  when the parameters are no JSON
         */
        public function request(string $method, array $params = []): mixed
        {
        }

        /**
         * The tools of the server as it lists them. Empty when it cannot be asked, which goes
         * to the log.
         *
         * @return list<array<string, mixed>>
         */
        public function listTools(): array
        {
        }

        /**
         * The result of a tool, unchanged: also one with `isError`.
         *
         * @param array<string, mixed> $arguments
         *
         * @throws Exception\PillionException as {@see request()}
         */
        public function callTool(string $name, array $arguments = []): mixed
        {
        }

        /** Whether the server answers now. */
        public function isAvailable(): bool
        {
        }
    }

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
         * @param array{server_url?: string, server_label?: string, timeout?: int|float, api_key?: string, options?: array<string, mixed>, ...} $serverConfig
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
    }

    /**
     * `dmcp_roll_dice`: dice from a remote MCP server.
     *
     * The server entry may map names: `tool_name` (`roll` unless set) and `argument_names`,
     * such as `['dice' => 'diceRollExpression', 'reason' => null]`; null leaves one out.
     */
    class DmcpTool extends MCPToolAdapter
    {
        public function getName(): string
        {
        }

        public function getDefinition(): ToolDefinition
        {
        }

        public function getMCPCategory(): string
        {
        }

        /** @param array{dice?: string, reason?: string} $arguments */
        public function execute(array $arguments, string $toolCallId): ToolResult
        {
        }
    }

    /**
     * A definition and a PHP callable as a tool; {@see ToolRegistry::register()} makes one.
     */
    final class CallableTool implements ToolInterface
    {
        public readonly ToolDefinition $definition;
        private mixed $handler = null;

        /** @param callable(array<string, mixed> $arguments, string $toolCallId): mixed $handler */
        public function __construct(ToolDefinition $definition, callable $handler)
        {
        }

        public function getName(): string
        {
        }

        public function getDefinition(): ToolDefinition
        {
        }

        /** Runs the callable as it is: only executors check the arguments. */
        public function execute(array $arguments, string $toolCallId): ToolResult
        {
        }

        public function isAvailableForProvider(string $providerClass): bool
        {
        }

        public function isEnabledForModel(array|object $model): bool
        {
        }
    }

    /**
     * A built-in tool; comes from a registry.
     */
    final class NativeTool implements ToolInterface
    {
        private function __construct()
        {
        }

        public function getName(): string
        {
        }

        public function getDefinition(): ToolDefinition
        {
        }

        /** Runs the tool with all the checks of an executor. */
        public function execute(array $arguments, string $toolCallId): ToolResult
        {
        }

        public function isAvailableForProvider(string $providerClass): bool
        {
        }

        public function isEnabledForModel(array|object $model): bool
        {
        }
    }

    /**
     * A tool that an MCP server listed; comes from {@see ToolRegistry::registerMcpServer()}.
     */
    final class MCPServerTool implements MCPToolInterface
    {
        private function __construct()
        {
        }

        public function getName(): string
        {
        }

        public function getDefinition(): ToolDefinition
        {
        }

        /** Runs the tool with all the checks of an executor. */
        public function execute(array $arguments, string $toolCallId): ToolResult
        {
        }

        public function isAvailableForProvider(string $providerClass): bool
        {
        }

        public function isEnabledForModel(array|object $model): bool
        {
        }

        /** @return array{type: 'mcp', server_label: string, server_url: string} without credentials */
        public function getMCPServerConfig(): array
        {
        }

        public function getMCPCategory(): string
        {
        }

        public function isServerAvailable(): bool
        {
        }
    }

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

        /** A new registry with `calculator`, `get_time` and `roll_dice`. */
        public static function withBuiltins(): ToolRegistry
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
         * Asks an MCP server for its tools and registers them all. A tool with an illegal name
         * is left out, which goes to the log.
         *
         * @param MCPSSEClient|array{server_url: string, server_label?: string, timeout?: int|float, api_key?: string, options?: array<string, mixed>, ...} $server
         *
         * @param string $prefix goes before the names, so that those of two servers do not meet
         *
         * @return list<string> the names
         *
         * @throws Exception\InvalidInputException when a name is taken, or the entry is not valid
         * @throws Exception\PillionException      when the server cannot be asked
         */
        public function registerMcpServer(#[\SensitiveParameter] MCPSSEClient|array $server, string $prefix = '', bool $replace = false): array
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

    /**
     * Runs calls: finds the tool, checks the arguments, keeps limits and deadlines. Every
     * call ends in exactly one result, and a failure never touches another call.
     */
    class ToolExecutor
    {
        private ToolRegistry $registry;

        /**
         * @param array{timeout?: int|float, tool_timeouts?: array<string, int|float>, max_concurrent?: int, queue_timeout?: int|float, max_output_bytes?: int, rate_limits?: array{every_tool?: array{per_minute?: int, per_hour?: int, per_day?: int}, tools?: array<string, array{per_minute?: int, per_hour?: int, per_day?: int}>, servers?: array<string, array{per_minute?: int, per_hour?: int, per_day?: int}>}} $options
         *        times in seconds
         *
         * @throws Exception\InvalidInputException when an option is unknown or not valid
         */
        public function __construct(ToolRegistry $registry, array $options = [])
        {
        }

        /**
         * @param ToolCall|array<string, mixed> $call    an array as {@see ToolCall::fromArray()} takes it
         * @param array<string, mixed>          $context `user` and `channel`, for limits and tools, and what
         *                                               else tools should know
         *
         * @throws Exception\InvalidInputException when the call is none
         */
        public function execute(ToolCall|array $call, array $context = []): ToolResult
        {
        }

        /**
         * Runs calls one after the other.
         *
         * @param list<ToolCall|array<string, mixed>> $calls
         * @param array<string, mixed>                $context
         *
         * @return list<ToolResult> in the order of the calls
         *
         * @throws Exception\InvalidInputException when a call is none
         */
        public function executeAll(array $calls, array $context = []): array
        {
        }

        /**
         * Runs native and MCP tools side by side, and beside them those in PHP one after the other.
         *
         * @param list<ToolCall|array<string, mixed>> $calls
         * @param array<string, mixed>                $context
         *
         * @return list<ToolResult> in the order of the calls
         *
         * @throws Exception\InvalidInputException when a call is none
         */
        public function executeParallel(array $calls, array $context = []): array
        {
        }
    }

    /**
     * What each model provider gets and gives. Providers: `openai`, `openai-responses`,
     * `anthropic`, `google`.
     */
    final class ProviderFormat
    {
        /**
         * What goes into the request's `tools` (for Google: `functionDeclarations`).
         *
         * @param list<ToolDefinition> $definitions
         *
         * @return list<array<string, mixed>> empty for a provider that is not known
         *
         * @throws Exception\InvalidInputException when an element is no definition
         */
        public static function tools(string $provider, array $definitions): array
        {
        }

        /**
         * The calls in a response.
         *
         * @param array<string, mixed> $response the whole body, decoded
         *
         * @return list<ToolCall>
         *
         * @throws Exception\InvalidInputException when the body is not what the provider sends, or reports an error
         */
        public static function toolCalls(string $provider, array $response): array
        {
        }

        /**
         * The text in a response.
         *
         * @param array<string, mixed> $response
         *
         * @throws Exception\InvalidInputException
         */
        public static function text(string $provider, array $response): string
        {
        }

        /**
         * What to append to the conversation before the results.
         *
         * @param array<string, mixed> $response
         *
         * @return list<array<string, mixed>>
         *
         * @throws Exception\InvalidInputException
         */
        public static function assistantMessages(string $provider, array $response): array
        {
        }

        /**
         * What to append to the conversation after {@see assistantMessages()}.
         *
         * @param list<ToolResult> $results
         *
         * @return list<array<string, mixed>>
         *
         * @throws Exception\InvalidInputException
         */
        public static function results(string $provider, array $results): array
        {
        }
    }

    /**
     * The sidecar `pillion serve`, through its Unix socket.
     */
    class Sidecar
    {
        /**
         * Does no I/O.
         *
         * @param ?string   $socketPath unless set: the ini setting `pillion.sidecar_socket`, `$PILLION_SOCKET`,
         *                              or the default path
         * @param int|float $timeout    seconds for one call, with all it does
         *
         * @throws Exception\InvalidInputException when the timeout is not valid
         */
        public function __construct(?string $socketPath = null, int|float $timeout = 60)
        {
        }

        public function getSocketPath(): string
        {
        }

        /** Whether a sidecar answers now. */
        public function isAvailable(): bool
        {
        }

        /**
         * @return list<array{name: string, description: string, parameters: list<array<string, mixed>>, category: string, server_label?: string}>
         *
         * @throws Exception\UnavailableException when there is no sidecar
         * @throws Exception\PillionException
         */
        public function listTools(?string $category = null): array
        {
        }

        /**
         * @return list<array{type: 'function', function: array<string, mixed>}>
         *
         * @throws Exception\PillionException as {@see listTools()}
         */
        public function getSchemas(?string $category = null): array
        {
        }

        /**
         * Runs a tool and returns its data.
         *
         * @param array<string, mixed>                                          $arguments
         * @param array{user?: string, channel?: string, request_id?: string} $context
         *
         * @throws Exception\UnavailableException when there is no sidecar
         * @throws Exception\PillionException     when the tool fails; the class fits the error code
         */
        public function callTool(string $name, array $arguments = [], array $context = []): mixed
        {
        }

        /**
         * Runs a call. A tool that fails is a failed result.
         *
         * @param ToolCall|array<string, mixed>                                 $call
         * @param array{user?: string, channel?: string, request_id?: string} $context
         *
         * @throws Exception\UnavailableException when there is no sidecar
         * @throws Exception\PillionException
         */
        public function execute(ToolCall|array $call, array $context = []): ToolResult
        {
        }

        /**
         * Runs calls one after the other, in one request.
         *
         * @param list<ToolCall|array<string, mixed>>                           $calls
         * @param array{user?: string, channel?: string, request_id?: string} $context
         *
         * @return list<ToolResult> in the order of the calls
         *
         * @throws Exception\PillionException as {@see execute()}
         */
        public function executeAll(array $calls, array $context = []): array
        {
        }

        /**
         * Runs calls side by side, in one request.
         *
         * @param list<ToolCall|array<string, mixed>>                           $calls
         * @param array{user?: string, channel?: string, request_id?: string} $context
         *
         * @return list<ToolResult> in the order of the calls
         *
         * @throws Exception\PillionException as {@see execute()}
         */
        public function executeParallel(array $calls, array $context = []): array
        {
        }
    }
}

namespace Pillion\Exception {

    /**
     * Everything that the extension throws on purpose.
     */
    class PillionException extends \RuntimeException
    {
        /** One of the codes of {@see \Pillion\ToolResult::$errorCode}. */
        public string $errorCode = 'internal_error';
    }

    /** The input is wrong; sending it again cannot help. */
    class InvalidInputException extends PillionException
    {
    }

    /** The sidecar has no tool of that name. */
    class NotFoundException extends PillionException
    {
    }

    /** A limit of the sidecar or of the MCP server. */
    class RateLimitedException extends PillionException
    {
        /** Seconds until a new try makes sense, where it is known. */
        public ?float $retryAfter = null;
    }

    /** The time was over first. */
    class TimeoutException extends PillionException
    {
    }

    /** The sidecar is not there, or a tool behind it is not set up. */
    class UnavailableException extends PillionException
    {
    }

    /** A peer cannot be reached, breaks off, or sends what makes no sense. */
    class TransportException extends PillionException
    {
        /** The HTTP status, where there was one. */
        public ?int $httpStatus = null;
    }

    /** The MCP server answered with a JSON-RPC error; `getCode()` is `$rpcCode`. */
    class JsonRpcException extends PillionException
    {
        public int $rpcCode = -1;
        /** The `data` of the error. */
        public mixed $data = null;
    }
}
