<?php

namespace Pillion;

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
