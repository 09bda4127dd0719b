<?php

namespace Pillion;

/**
 * The definition of a tool for models and the executor.
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
    private ?array $binding = null;

    /**
     * @param array<string, mixed>|list<array{name: string, type: string, description?: string, required?: bool, default?: mixed, enum?: list<mixed>}> $parameters
     *        a JSON Schema of type object, or a list of parameters that is converted to a schema;
     *        `required` defaults to true
     * @param bool      $strict               whether OpenAI must enforce the schema exactly; ignored for a schema that has
     *                                        no equivalent in OpenAI's strict form
     * @param bool      $requiresConfirmation whether each call needs approval
     * @param int|float $cooldownSeconds      minimum time between two calls of one user
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
     * Creates a definition from the signature, the doc comment and the attributes of PHP code. The code then
     * receives its declared parameters instead of an array:
     * `$registry->register(ToolDefinition::fromCallable($f), $f)`.
     *
     * Supported parameter types: int, float, string, bool, array (`@param` declares the element type), backed
     * enums, and unions of these types. Variadic parameters and references are rejected.
     *
     * @param callable|object|array{object|string, string}|string $callable a callable, or a class or an object with
     *        `__invoke()` or `execute()`
     * @param ?string $name        default: the name of {@see AsTool}, or of the code
     * @param ?string $description default: the description of {@see AsTool}, or the summary of the doc comment
     *
     * @throws Exception\InvalidInputException when the code cannot be a tool; the message says why
     */
    public static function fromCallable(object|array|string $callable, ?string $name = null, ?string $description = null): ToolDefinition
    {
    }

    /**
     * Returns the definition for OpenAI's Chat Completions API. In all formats an empty map is a `stdClass`,
     * so that it remains a map in JSON.
     *
     * @return array{type: 'function', function: array{name: string, description: string, parameters: array<string, mixed>, strict: bool}}
     */
    public function toOpenAiFormat(): array
    {
    }

    /**
     * Returns the definition for OpenAI's Responses API.
     *
     * @return array{type: 'function', name: string, description: string, parameters: array<string, mixed>, strict: bool}
     */
    public function toOpenAiResponsesFormat(): array
    {
    }

    /**
     * Returns an entry of Google's `functionDeclarations`, with the schema rewritten to the subset that
     * Gemini supports.
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
