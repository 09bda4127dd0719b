<?php

namespace Pillion;

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
    }
}
