<?php

declare(strict_types=1);

namespace Pillion\Fallback\Chat;

use Pillion\ChatAnswer;
use Pillion\Fallback\Json;

/**
 * Converts the sidecar's response of a chat.
 *
 * @internal
 */
final class Answer
{
    /** @param string $state the chat's ID, in case the response does not contain it */
    public static function of(\stdClass $answer, string $state): ChatAnswer
    {
        $text = static fn (string $key): ?string => is_string($answer->$key ?? null) ? $answer->$key : null;
        $list = static fn (string $key): array => is_array($answer->$key ?? null) ? $answer->$key : [];
        $wait = $answer->retry_after ?? null;
        $usage = Json::arrays($answer->usage ?? null);
        return new ChatAnswer(
            text: $text('content'),
            status: $text('status') ?? '',
            state: $text('id') ?? $state,
            model: $text('model') ?? '',
            finishReason: $text('finish_reason'),
            limitReached: $text('limit_reached'),
            toolCalls: Json::arrays($list('tool_calls')),
            approvals: array_map(self::approval(...), array_filter($list('approvals'), is_object(...))),
            usage: is_array($usage) ? $usage : [],
            error: $text('error'),
            errorCode: $text('error_code'),
            retryAfter: is_int($wait) || is_float($wait) ? (float) $wait : null,
        );
    }

    /**
     * Converts a call that waits for approval. The approver needs to see the arguments.
     *
     * @return array{id: ?string, call: string, tool: string, arguments: array<array-key, mixed>|string}
     */
    public static function approval(\stdClass $approval): array
    {
        $arguments = $approval->arguments ?? null;
        return [
            'id' => $approval->id ?? null,
            'call' => $approval->call ?? '',
            'tool' => $approval->tool ?? '',
            'arguments' => $arguments instanceof \stdClass ? Json::members($arguments) : $arguments ?? [],
        ];
    }
}
