<?php

namespace Pillion;

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
    private ?array $binding = null;

    /**
     * @param array<string, mixed>|list<array{name: string, type: string, description?: string, required?: bool, default?: mixed, enum?: list<mixed>}> $parameters
     *        a JSON Schema of type object, or a list of parameters, of which one is made;
     *        `required` is true unless said otherwise
     * @param bool      $strict               whether OpenAI should hold the model to the schema exactly; it is not
     *                                        claimed of a schema that cannot be written in OpenAI's strict form
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
     * A definition made of the signature, the doc comment and the attributes of PHP code. With it, the
     * code gets its parameters instead of an array: `$registry->register(ToolDefinition::fromCallable($f), $f)`.
     *
     * Parameters have the types int, float, string, bool, array (`@param` says of what), backed enums and
     * unions of them; variadic ones and references are refused.
     *
     * @param callable|object|array{object|string, string}|string $callable also a class or an object with
     *        `__invoke()` or `execute()`
     * @param ?string $name        else that of {@see AsTool}, else that of the code
     * @param ?string $description else that of {@see AsTool}, else the summary of the doc comment
     *
     * @throws Exception\InvalidInputException when the code cannot be a tool; the message says why
     */
    public static function fromCallable(object|array|string $callable, ?string $name = null, ?string $description = null): ToolDefinition
    {
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
