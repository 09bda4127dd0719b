<?php

declare(strict_types=1);

namespace Pillion\Laravel\Chat;

/**
 * Reads the finish reason of a provider's response.
 *
 * @internal
 */
final class FinishReason
{
    /**
     * The finish reasons of a truncated response, which reached the maximum length of the response
     * or of the conversation.
     */
    private const LENGTH_REASONS = [
        'length', 'model_length', 'max_tokens', 'model_context_window_exceeded', 'MAX_TOKENS', 'max_output_tokens',
    ];

    /** The finish reasons of a filtered response, parts of which the provider withheld. */
    private const FILTER_REASONS = [
        'content_filter', 'refusal', 'SAFETY', 'RECITATION', 'LANGUAGE', 'BLOCKLIST', 'PROHIBITED_CONTENT', 'SPII',
        'IMAGE_SAFETY', 'IMAGE_PROHIBITED_CONTENT', 'IMAGE_RECITATION',
    ];

    /**
     * Returns the number of complete calls in a response: truncation makes the last call
     * incomplete, and filtering makes all calls incomplete.
     *
     * @param array<array-key, mixed> $response the complete decoded body
     */
    public static function countCompleteCalls(array $response, int $callCount): int
    {
        $reason = self::findReason($response);
        return match (true) {
            in_array($reason, self::LENGTH_REASONS, true) => max(0, $callCount - 1),
            in_array($reason, self::FILTER_REASONS, true) => 0,
            default => $callCount,
        };
    }

    /**
     * Returns the finish reason as the provider wrote it. Each provider has a different field for
     * the finish reason.
     *
     * @param array<array-key, mixed> $response
     */
    private static function findReason(array $response): mixed
    {
        return $response['choices'][0]['finish_reason']
            ?? $response['candidates'][0]['finishReason']
            ?? $response['incomplete_details']['reason']
            ?? $response['stop_reason']
            ?? null;
    }
}
