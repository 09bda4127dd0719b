<?php

declare(strict_types=1);

namespace Pillion\Laravel\Chat;

/**
 * The reason why a provider's answer ended.
 *
 * @internal
 */
final class FinishReason
{
    /**
     * The reasons of a truncated answer: the maximum length of the answer or of the conversation was reached.
     */
    private const LENGTH = [
        'length', 'model_length', 'max_tokens', 'model_context_window_exceeded', 'MAX_TOKENS', 'max_output_tokens',
    ];

    /** The reasons of a filtered answer: parts of it were withheld. */
    private const FILTERED = [
        'content_filter', 'refusal', 'SAFETY', 'RECITATION', 'LANGUAGE', 'BLOCKLIST', 'PROHIBITED_CONTENT', 'SPII',
        'IMAGE_SAFETY', 'IMAGE_PROHIBITED_CONTENT', 'IMAGE_RECITATION',
    ];

    /**
     * Returns the number of complete calls in an answer: truncation makes the last call incomplete, filtering
     * all of them.
     *
     * @param array<array-key, mixed> $response the complete decoded body
     */
    public static function countCompleteCalls(array $response, int $calls): int
    {
        $reason = self::reason($response);
        return match (true) {
            in_array($reason, self::LENGTH, true) => max(0, $calls - 1),
            in_array($reason, self::FILTERED, true) => 0,
            default => $calls,
        };
    }

    /**
     * Returns the reason in the provider's terms; each provider has a different field for it.
     *
     * @param array<array-key, mixed> $response
     */
    private static function reason(array $response): mixed
    {
        return $response['choices'][0]['finish_reason']
            ?? $response['candidates'][0]['finishReason']
            ?? $response['incomplete_details']['reason']
            ?? $response['stop_reason']
            ?? null;
    }
}
