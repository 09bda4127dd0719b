<?php

declare(strict_types=1);

namespace Pillion;

use Pillion\Fallback\Argument;
use Pillion\Fallback\Failure;
use Pillion\Fallback\InputSchema;
use Pillion\Fallback\Provider\Format;
use Pillion\Fallback\Signature\Signature;
use Pillion\Fallback\Signature\Target;

/**
 * What a model and the executor need to know of a tool.
 */
class ToolDefinition
{
    /** In characters: what MCP advises (SEP-986). */
    private const LONGEST_NAME = 128;

    public readonly string $name;
    public readonly string $description;
    /** @var array<string, mixed> a JSON Schema of type object */
    public readonly array $parameters;
    public readonly bool $strict;
    public readonly string $category;
    public readonly bool $requiresConfirmation;
    public readonly float $cooldownSeconds;
    /** @var ?array<string, ?class-string<\BackedEnum>> how arguments become the parameters of PHP code; see {@see Signature} */
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
        Argument::texts([1 => $name, 2 => $description, 5 => $category]);
        Argument::seconds('cooldownSeconds', $cooldownSeconds);
        self::checkName($name);
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
        Argument::texts([2 => $name, 3 => $description]);
        return self::bound(Signature::read(Target::find($callable), $name, $description));
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

    /** @throws Exception\InvalidInputException */
    private static function checkName(string $name): void
    {
        $rule = match (true) {
            strlen($name) > self::LONGEST_NAME => 'use no more than ' . self::LONGEST_NAME . ' characters',
            preg_match('/^[a-zA-Z_][a-zA-Z0-9_-]*$/D', $name) !== 1 => "use letters, digits, '_' and '-', starting with a letter or '_'",
            default => null,
        };
        if ($rule !== null) {
            $beginning = preg_match('/^.{64}(?=.)/us', $name, $found) === 1 ? "$found[0]..." : $name;
            throw Failure::invalidInput("Invalid tool name '$beginning': $rule");
        }
    }

    private static function bound(Signature $signature): self
    {
        $signature->definition->binding = $signature->binding;
        return $signature->definition;
    }
}
