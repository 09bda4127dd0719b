<?php

declare(strict_types=1);

namespace Pillion\Fallback\Provider;

use Pillion\Fallback\InputSchema;
use Pillion\Fallback\Json;
use Pillion\Fallback\ModelContent;
use Pillion\Fallback\Provider\Gemini\SchemaConversion;
use Pillion\ToolDefinition;
use Pillion\ToolResult;

/**
 * Google's `generateContent` API (Gemini).
 *
 * @internal
 */
final class Google extends Format
{
    /**
     * The prefix of generated call IDs. The API rejects an ID in a result if the call had none, so generated
     * IDs must be distinguishable.
     */
    private const GENERATED_ID_PREFIX = 'pillion_call_';

    /** Maximum length, in bytes, of a response ID that becomes part of a generated call ID. */
    private const MAX_RESPONSE_ID_LEN = 64;

    protected function name(): string
    {
        return 'google';
    }

    public function tool(ToolDefinition $definition, bool $alwaysStrict): array
    {
        return [
            'name' => $definition->name,
            'description' => $definition->description,
            'parameters' => Json::toLosslessArrays(SchemaConversion::parameters(InputSchema::tree($definition))),
        ];
    }

    public function toolCalls(ResponseNode $body): array
    {
        $responseId = $body->value instanceof \stdClass ? $body->value->responseId ?? null : null;
        $calls = [];
        foreach ($this->parts($body) as $part) {
            $call = $part->optional('functionCall');
            if ($call !== null) {
                $calls[] = self::call(
                    $call->optional('id')?->text() ?? self::generateId($responseId, count($calls)),
                    $call->required('name')->text(),
                    ResponseNode::arguments($call->optional('args')),
                );
            }
        }
        return $calls;
    }

    public function text(ResponseNode $body): string
    {
        $text = '';
        foreach ($this->parts($body) as $part) {
            $isThought = $part->value instanceof \stdClass && ($part->value->thought ?? null) === true;
            $text .= $isThought ? '' : $part->optional('text')?->text() ?? '';
        }
        return $text;
    }

    /** Returns the content unchanged: each thought signature must come back on the part that it came on. */
    public function assistantMessages(ResponseNode $body): array
    {
        $this->toolCalls($body);
        $parts = [];
        foreach ($this->parts($body) as $part) {
            $call = $part->value instanceof \stdClass ? $part->value->functionCall ?? null : null;
            if ($call instanceof \stdClass && property_exists($call, 'args')) {
                $call->args = ResponseNode::argumentsObject($call->args);
            }
            $parts[] = $part->value;
        }
        return $parts === [] ? [] : [(object) ['role' => 'model', 'parts' => $parts]];
    }

    public function results(array $results): array
    {
        $parts = [];
        foreach ($results as $result) {
            $response = ['name' => $result->toolName];
            if (!str_starts_with($result->toolCallId, self::GENERATED_ID_PREFIX)) {
                $response['id'] = $result->toolCallId;
            }
            $parts[] = ['functionResponse' => $response + ['response' => self::responseOf($result)]];
        }
        return [['role' => 'user', 'parts' => $parts]];
    }

    /**
     * Returns a map. The result has its own key, so that a result with a member `error` does not look like a
     * failure.
     *
     * @return array<string, mixed>
     */
    private static function responseOf(ToolResult $result): array
    {
        $content = ModelContent::of($result);
        $error = $result->success ? [] : ['error' => $result->error ?? 'unknown error'];
        return $content->isEmptyFailure() ? $error : $error + ['result' => Json::toLosslessArrays($content->tree())];
    }

    /**
     * Returns the same ID for the same response and position. The response ID, if any, distinguishes the
     * calls of different turns.
     */
    private static function generateId(mixed $responseId, int $index): string
    {
        $isUsable = is_string($responseId) && $responseId !== '' && strlen($responseId) <= self::MAX_RESPONSE_ID_LEN;
        return self::GENERATED_ID_PREFIX . ($isUsable ? "{$responseId}_" : '') . $index;
    }

    /**
     * Returns the parts of the first candidate. A blocked prompt has no candidate, and a stopped candidate
     * has no content or parts: both have no calls and no text.
     *
     * @return list<ResponseNode>
     */
    private function parts(ResponseNode $body): array
    {
        $candidates = $body->optional('candidates');
        if ($candidates === null && $body->optional('promptFeedback') !== null) {
            return [];
        }
        $first = ($candidates ?? $body->required('candidates'))->first();
        return $first->optional('content')?->optional('parts')?->items() ?? [];
    }
}
