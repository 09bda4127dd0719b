<?php

declare(strict_types=1);

namespace Pillion;

use Pillion\Fallback\Argument;
use Pillion\Fallback\Failure;
use Pillion\Fallback\InputSchema;
use Pillion\Fallback\ProviderFormats;
use Pillion\Fallback\Signature\Signature;
use Pillion\Fallback\Signature\Target;

/**
 * The definition of a tool for models and the executor.
 */
class ToolDefinition
{
    /** Maximum length of a name in characters, as MCP recommends (SEP-986). */
    private const MAX_NAME_LEN = 128;

    public readonly string $name;
    public readonly string $description;
    /** @var array<string, mixed> a JSON Schema of type object */
    public readonly array $parameters;
    public readonly bool $strict;
    public readonly string $category;
    public readonly bool $requiresConfirmation;
    public readonly float $cooldownSeconds;
    /** @var ?array<string, ?class-string<\BackedEnum>> how arguments are converted to the parameters of PHP code; see {@see Signature} */
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
        Argument::checkTexts([1 => $name, 2 => $description, 5 => $category]);
        Argument::checkSeconds('cooldownSeconds', $cooldownSeconds);
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
        Argument::checkTexts([2 => $name, 3 => $description]);
        return self::fromSignature(Signature::read(Target::find($callable), $name, $description));
    }

    /**
     * Returns the definition for OpenAI's Chat Completions API. In all formats an empty map is a `stdClass`,
     * so that it remains a map in JSON.
     *
     * @return array{type: 'function', function: array{name: string, description: string, parameters: array<string, mixed>, strict: bool}}
     */
    public function toOpenAiFormat(): array
    {
        return ProviderFormats::tools('openai', [$this], alwaysStrict: true)[0];
    }

    /**
     * Returns the definition for OpenAI's Responses API.
     *
     * @return array{type: 'function', name: string, description: string, parameters: array<string, mixed>, strict: bool}
     */
    public function toOpenAiResponsesFormat(): array
    {
        return ProviderFormats::tools('openai-responses', [$this], alwaysStrict: true)[0];
    }

    /**
     * Returns an entry of Google's `functionDeclarations`, with the schema rewritten to the subset that
     * Gemini supports.
     *
     * @return array{name: string, description: string, parameters: array<string, mixed>}
     */
    public function toGoogleFormat(): array
    {
        return ProviderFormats::tools('google', [$this], alwaysStrict: true)[0];
    }

    /** @return array{name: string, description: string, input_schema: array<string, mixed>} */
    public function toAnthropicFormat(): array
    {
        return ProviderFormats::tools('anthropic', [$this], alwaysStrict: true)[0];
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
            strlen($name) > self::MAX_NAME_LEN => 'use no more than ' . self::MAX_NAME_LEN . ' characters',
            preg_match('/^[a-zA-Z_][a-zA-Z0-9_-]*$/D', $name) !== 1 => "use letters, digits, '_' and '-', starting with a letter or '_'",
            default => null,
        };
        if ($rule !== null) {
            $shortName = preg_match('/^.{64}(?=.)/us', $name, $matches) === 1 ? "$matches[0]..." : $name;
            throw Failure::invalidInput("Invalid tool name '$shortName': $rule");
        }
    }

    private static function fromSignature(Signature $signature): self
    {
        $signature->definition->binding = $signature->binding;
        return $signature->definition;
    }
}
