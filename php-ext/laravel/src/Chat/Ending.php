<?php

declare(strict_types=1);

namespace Pillion\Laravel\Chat;

/**
 * Why a provider's answer ended.
 *
 * @internal
 */
final class Ending
{
    /** Why no more was written: the answer, or the whole conversation, was as long as it may be. */
    private const LENGTH = [
        'length', 'model_length', 'max_tokens', 'model_context_window_exceeded', 'MAX_TOKENS', 'max_output_tokens',
    ];

    /** Why something of the answer was withheld. */
    private const FILTERED = [
        'content_filter', 'refusal', 'SAFETY', 'RECITATION', 'LANGUAGE', 'BLOCKLIST', 'PROHIBITED_CONTENT', 'SPII',
        'IMAGE_SAFETY', 'IMAGE_PROHIBITED_CONTENT', 'IMAGE_RECITATION',
    ];

    /**
     * How many of an answer's calls are whole: it was cut off in the last, or something of it was withheld.
     *
     * @param array<array-key, mixed> $response the whole body, decoded
     */
    public static function wholeCalls(array $response, int $calls): int
    {
        $reason = self::reason($response);
        return match (true) {
            in_array($reason, self::LENGTH, true) => max(0, $calls - 1),
            in_array($reason, self::FILTERED, true) => 0,
            default => $calls,
        };
    }

    /**
     * In the provider's word; each has a place of its own for it.
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
