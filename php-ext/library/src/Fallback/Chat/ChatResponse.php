<?php

declare(strict_types=1);

namespace Pillion\Fallback\Chat;

use Pillion\ChatAnswer;
use Pillion\Fallback\Json;

/**
 * Converts the sidecar's response to a chat request.
 *
 * @internal
 */
final class ChatResponse
{
    /** @param string $state the chat's ID, in case the response does not contain it */
    public static function parse(\stdClass $response, string $state): ChatAnswer
    {
        $readText = static fn (string $key): ?string => is_string($response->$key ?? null) ? $response->$key : null;
        $readList = static fn (string $key): array => is_array($response->$key ?? null) ? $response->$key : [];
        $retryAfter = $response->retry_after ?? null;
        $usage = Json::toArrays($response->usage ?? null);
        return new ChatAnswer(
            text: $readText('content'),
            status: $readText('status') ?? '',
            state: $readText('id') ?? $state,
            model: $readText('model') ?? '',
            finishReason: $readText('finish_reason'),
            limitReached: $readText('limit_reached'),
            toolCalls: Json::toArrays($readList('tool_calls')),
            approvals: array_map(self::parseApproval(...), array_filter($readList('approvals'), is_object(...))),
            usage: is_array($usage) ? $usage : [],
            error: $readText('error'),
            errorCode: $readText('error_code'),
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
            'arguments' => $arguments instanceof \stdClass ? Json::toMemberArrays($arguments) : $arguments ?? [],
        ];
    }
}
