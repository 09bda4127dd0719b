<?php

declare(strict_types=1);

namespace Pillion\Fallback\Provider;

use Pillion\Fallback\Json;
use Pillion\ToolDefinition;
use Pillion\ToolResult;

/**
 * OpenAI's Responses API.
 *
 * @internal
 */
final class OpenAiResponses extends Format
{
    private const CALL = 'function_call';

    protected function name(): string
    {
        return 'openai-responses';
    }

    /** Always includes `strict`, because the API treats a missing `strict` as true. */
    public function tool(ToolDefinition $definition, bool $alwaysStrict): array
    {
        [$parameters, $isStrict] = StrictSchema::parameters($definition);
        return [
            'type' => 'function',
            'name' => $definition->name,
            'description' => $definition->description,
            'parameters' => Json::toLosslessArrays($parameters),
            'strict' => $isStrict,
        ];
    }

    public function toolCalls(ResponseNode $body): array
    {
        $calls = [];
        foreach ($body->required('output')->items() as $item) {
            if ($item->isType(self::CALL)) {
                // `id` identifies the item; results refer to `call_id`.
                $calls[] = self::call(
                    $item->required('call_id')->text(),
                    $item->required('name')->text(),
                    ResponseNode::arguments($item->optional('arguments')),
                );
            }
        }
        return $calls;
    }

    /** Returns the text, or the refusal if there is no other text. */
    public function text(ResponseNode $body): string
    {
        $text = self::partsText($body, 'output_text', 'text');
        return $text !== '' ? $text : self::partsText($body, 'refusal', 'refusal');
    }

    /** Returns the text of all parts of one kind; `$member` contains the text of a part. */
    private static function partsText(ResponseNode $body, string $kind, string $member): string
    {
        $text = '';
        foreach ($body->required('output')->items() as $item) {
            if (!$item->isType('message')) {
                continue;
            }
            foreach ($item->required('content')->items() as $part) {
                if ($part->isType($kind)) {
                    $text .= $part->required($member)->text();
                }
            }
        }
        return $text;
    }

    /**
     * Returns all items: the API rejects a call of a reasoning model without the reasoning before it.
     * Trailing reasoning items, left by a truncated response, are removed, because the API rejects them too.
     */
    public function assistantMessages(ResponseNode $body): array
    {
        $this->toolCalls($body);
        $items = [];
        foreach ($body->required('output')->items() as $item) {
            if ($item->isType(self::CALL)) {
                $item->value->arguments = ResponseNode::argumentsText($item->value->arguments ?? null);
            }
            $items[] = $item->value;
        }
        while ($items !== [] && end($items)->type === 'reasoning') {
            array_pop($items);
        }
        return $items;
    }

    public function results(array $results): array
    {
        return array_map(static fn (ToolResult $result): array => [
            'type' => 'function_call_output',
            'call_id' => $result->toolCallId,
            'output' => self::content($result),
        ], $results);
    }
}
