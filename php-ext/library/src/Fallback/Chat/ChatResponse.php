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
final class ChatResponse
{
    /** @param string $state the chat's ID, in case the response does not contain it */
    public static function parse(\stdClass $response, string $state): ChatAnswer
    {
        $text = static fn (string $key): ?string => is_string($response->$key ?? null) ? $response->$key : null;
        $list = static fn (string $key): array => is_array($response->$key ?? null) ? $response->$key : [];
        $retryAfter = $response->retry_after ?? null;
        $usage = Json::toArrays($response->usage ?? null);
        return new ChatAnswer(
            text: $text('content'),
            status: $text('status') ?? '',
            state: $text('id') ?? $state,
            model: $text('model') ?? '',
            finishReason: $text('finish_reason'),
            limitReached: $text('limit_reached'),
            toolCalls: Json::toArrays($list('tool_calls')),
            approvals: array_map(self::parseApproval(...), array_filter($list('approvals'), is_object(...))),
            usage: is_array($usage) ? $usage : [],
            error: $text('error'),
            errorCode: $text('error_code'),
            retryAfter: is_int($retryAfter) || is_float($retryAfter) ? (float) $retryAfter : null,
        );
    }

    /**
     * Converts a call that waits for approval, with its arguments, which the approver needs to see.
     *
     * @return array{id: ?string, call: string, tool: string, arguments: array<array-key, mixed>|string}
     */
    public static function parseApproval(\stdClass $approval): array
    {
        $arguments = $approval->arguments ?? null;
        return [
            'id' => $approval->id ?? null,
            'call' => $approval->call ?? '',
            'tool' => $approval->tool ?? '',
            'arguments' => $arguments instanceof \stdClass ? Json::memberArrays($arguments) : $arguments ?? [],
        ];
    }
}
