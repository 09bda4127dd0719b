<?php

declare(strict_types=1);

namespace Pillion;

use Pillion\Fallback\Argument;
use Pillion\Fallback\Failure;
use Pillion\Fallback\ProviderFormats;

/**
 * Converts between Pillion and the formats of model providers: `openai`, `openai-responses`, `anthropic` and
 * `google`.
 */
final class ProviderFormat
{
    /**
     * Returns the definitions in the provider's format, for the member `tools` of a request (for
     * Google: `functionDeclarations`).
     *
     * @param list<ToolDefinition> $definitions
     *
     * @return list<array<string, mixed>> empty for an unknown provider
     *
     * @throws Exception\InvalidInputException when an element is not a ToolDefinition
     */
    public static function tools(string $provider, array $definitions): array
    {
        Argument::checkTexts([1 => $provider]);
        self::checkElements($definitions, ToolDefinition::class);
        return $definitions === [] ? [] : ProviderFormats::tools($provider, array_values($definitions), alwaysStrict: false);
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
        return ProviderFormats::calls($provider, $response);
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
        return ProviderFormats::text($provider, $response);
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
        return ProviderFormats::messages($provider, $response);
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
        self::checkElements($results, ToolResult::class);
        return ProviderFormats::results($provider, array_values($results));
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
