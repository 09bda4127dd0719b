<?php

declare(strict_types=1);

namespace Pillion;

use Pillion\Fallback\Argument;
use Pillion\Fallback\Failure;
use Pillion\Fallback\InputSchema;
use Pillion\Fallback\Provider\Format;

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
        Argument::texts([1 => $name, 2 => $description, 5 => $category]);
        Argument::seconds('cooldownSeconds', $cooldownSeconds);
        if (preg_match('/^[a-zA-Z_][a-zA-Z0-9_-]*$/D', $name) !== 1) {
            throw Failure::invalidInput("Invalid tool name '$name': use letters, digits, '_' and '-', starting with a letter or '_'");
        }
        if (Argument::isBlank($description)) {
            throw Failure::invalidInput("$name: A tool needs a description");
        }
        $this->name = $name;
        $this->description = $description;
        $this->parameters = InputSchema::read($name, $parameters);
        $this->strict = $strict;
        $this->category = $category;
        $this->requiresConfirmation = $requiresConfirmation;
        $this->cooldownSeconds = (float) $cooldownSeconds;
    }

    /**
     * OpenAI's chat completions. In the formats an empty map is a `stdClass`, so that it
     * stays a map in JSON.
     *
     * @return array{type: 'function', function: array{name: string, description: string, parameters: array<string, mixed>, strict: bool}}
     */
    public function toOpenAiFormat(): array
    {
        return Format::of('openai')->tool($this, alwaysStrict: true);
    }

    /**
     * OpenAI's Responses.
     *
     * @return array{type: 'function', name: string, description: string, parameters: array<string, mixed>, strict: bool}
     */
    public function toOpenAiResponsesFormat(): array
    {
        return Format::of('openai-responses')->tool($this, alwaysStrict: true);
    }

    /**
     * An entry of Google's `functionDeclarations`, with the schema rewritten into what
     * Gemini takes.
     *
     * @return array{name: string, description: string, parameters: array<string, mixed>}
     */
    public function toGoogleFormat(): array
    {
        return Format::of('google')->tool($this, alwaysStrict: true);
    }

    /** @return array{name: string, description: string, input_schema: array<string, mixed>} */
    public function toAnthropicFormat(): array
    {
        return Format::of('anthropic')->tool($this, alwaysStrict: true);
    }

    /** @return array{name: string, description: string, parameters: array<string, mixed>, strict: bool} */
    public function toArray(): array
    {
        return [
            'name' => $this->name,
            'description' => $this->description,
            'parameters' => $this->parameters,
            'strict' => $this->strict,
        ];
    }
}
