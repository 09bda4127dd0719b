<?php

declare(strict_types=1);

namespace Pillion\Fallback\Provider;

use Pillion\Fallback\Failure;
use Pillion\Fallback\Json;
use Pillion\ToolCall;
use Pillion\ToolDefinition;
use Pillion\ToolResult;

/**
 * Converts between Pillion and the format of one provider, like the engine. The formats are described in
 * docs/reference/provider-formats.md.
 *
 * @internal
 */
abstract class Format
{
    /** @throws \Pillion\Exception\InvalidInputException when the provider is unknown */
    public static function of(string $provider): self
    {
        return self::find($provider) ?? throw Failure::invalidInput(
            "Unknown provider '$provider': use openai, openai-responses, anthropic or google",
        );
    }

    public static function find(string $provider): ?self
    {
        return match (strtolower($provider)) {
            'openai', 'openai-chat' => new OpenAiChat(),
            'openai-responses' => new OpenAiResponses(),
            'anthropic' => new Anthropic(),
            'google', 'gemini' => new Google(),
            default => null,
        };
    }

    abstract protected function name(): string;

    /**
     * @param bool $alwaysStrict whether OpenAI's chat format includes `strict` for a tool that is not strict
     *
     * @return array<string, mixed>
     */
    abstract public function tool(ToolDefinition $definition, bool $alwaysStrict): array;

    /** @return list<ToolCall> */
    abstract public function toolCalls(ResponseNode $body): array;

    abstract public function text(ResponseNode $body): string;

    /** @return list<mixed> trees */
    abstract public function assistantMessages(ResponseNode $body): array;

    /**
     * @param non-empty-list<ToolResult> $results
     *
     * @return list<array<string, mixed>>
     */
    abstract public function results(array $results): array;

    /**
     * Returns the response body, unless the provider reported an error.
     *
     * @param array<array-key, mixed> $response
     *
     * @throws \Pillion\Exception\InvalidInputException
     */
    public function body(array $response): ResponseNode
    {
        $tree = Json::toTree($response);
        $error = $tree instanceof \stdClass ? $tree->error ?? null : null;
        if ($error !== null) {
            $detail = $error instanceof \stdClass ? $error->message ?? $error : $error;
            throw Failure::invalidInput("The provider '{$this->name()}' reported an error: " . Json::text($detail));
        }
        return new ResponseNode($this->name(), $tree);
    }

    protected static function call(string $id, string $name, mixed $arguments, ?int $index = null): ToolCall
    {
        $arguments = $arguments instanceof \stdClass ? Json::memberArrays($arguments) : Json::toLosslessArrays($arguments);
        if (!is_array($arguments) && !is_string($arguments)) {
            // Not valid arguments: the executor reports the error.
            $arguments = Json::encode($arguments);
        }
        return new ToolCall($id, $name, $arguments, index: $index);
    }

    /** Returns the content of a tool's message: a string unchanged, any other value as JSON. */
    protected static function content(ToolResult $result): string
    {
        return $result->toMessageFormat()['content'];
    }
}
