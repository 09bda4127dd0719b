<?php

declare(strict_types=1);

namespace Pillion;

use Pillion\Fallback\Argument;
use Pillion\Fallback\Failure;
use Pillion\Fallback\Json;
use Pillion\Fallback\Provider\Format;

/**
 * Converts between Pillion and the formats of model providers: `openai`, `openai-responses`, `anthropic` and
 * `google`.
 */
final class ProviderFormat
{
    /**
     * Returns the definitions for the request's `tools` (for Google: `functionDeclarations`).
     *
     * @param list<ToolDefinition> $definitions
     *
     * @return list<array<string, mixed>> empty for an unknown provider
     *
     * @throws Exception\InvalidInputException when an element is not a ToolDefinition
     */
    public static function tools(string $provider, array $definitions): array
    {
        Argument::texts([1 => $provider]);
        self::checkElements($definitions, ToolDefinition::class);
        $format = Format::find($provider);
        return $format === null ? [] : array_map(
            static fn (ToolDefinition $definition): array => $format->tool($definition, alwaysStrict: false),
            array_values($definitions),
        );
    }

    /**
     * Returns the tool calls in a response.
     *
     * @param array<string, mixed> $response the complete decoded body
     *
     * @return list<ToolCall>
     *
     * @throws Exception\InvalidInputException when the body is not a valid response of the provider, or reports an error
     */
    public static function toolCalls(string $provider, array $response): array
    {
        $format = Format::of($provider);
        return $format->toolCalls($format->body($response));
    }

    /**
     * Returns the text in a response.
     *
     * @param array<string, mixed> $response
     *
     * @throws Exception\InvalidInputException
     */
    public static function text(string $provider, array $response): string
    {
        $format = Format::of($provider);
        return $format->text($format->body($response));
    }

    /**
     * Returns the messages to append to the conversation before the results.
     *
     * @param array<string, mixed> $response
     *
     * @return list<array<string, mixed>>
     *
     * @throws Exception\InvalidInputException
     */
    public static function assistantMessages(string $provider, array $response): array
    {
        $format = Format::of($provider);
        return array_map(Json::toLosslessArrays(...), $format->assistantMessages($format->body($response)));
    }

    /**
     * Returns the messages with the results, to append to the conversation after {@see assistantMessages()}.
     *
     * @param list<ToolResult> $results
     *
     * @return list<array<string, mixed>>
     *
     * @throws Exception\InvalidInputException
     */
    public static function results(string $provider, array $results): array
    {
        $format = Format::of($provider);
        self::checkElements($results, ToolResult::class);
        return $results === [] ? [] : $format->results(array_values($results));
    }

    /**
     * @param array<array-key, mixed> $elements
     * @param class-string            $class
     */
    private static function checkElements(array $elements, string $class): void
    {
        foreach ($elements as $element) {
            if (!$element instanceof $class) {
                throw Failure::invalidInput("Each element must be a $class");
            }
        }
    }
}
