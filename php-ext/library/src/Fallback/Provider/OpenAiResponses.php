<?php

declare(strict_types=1);

namespace Pillion\Fallback\Provider;

use Pillion\Fallback\Json;
use Pillion\ToolDefinition;
use Pillion\ToolResult;

/**
 * OpenAI's Responses.
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

    /** `strict` is always there: that API takes its absence for true. */
    public function tool(ToolDefinition $definition, bool $alwaysStrict): array
    {
        [$parameters, $isStrict] = Strict::parameters($definition);
        return [
            'type' => 'function',
            'name' => $definition->name,
            'description' => $definition->description,
            'parameters' => Json::shown($parameters),
            'strict' => $isStrict,
        ];
    }

    public function toolCalls(Node $body): array
    {
        $calls = [];
        foreach ($body->required('output')->items() as $item) {
            if ($item->isType(self::CALL)) {
                // `id` is the item's own id; results refer to `call_id`.
                $calls[] = self::call(
                    $item->required('call_id')->text(),
                    $item->required('name')->text(),
                    Node::arguments($item->optional('arguments')),
                );
            }
        }
        return $calls;
    }

    /** The refusal where there is no other text. */
    public function text(Node $body): string
    {
        $text = self::said($body, 'output_text', 'text');
        return $text !== '' ? $text : self::said($body, 'refusal', 'refusal');
    }

    /** The texts of the parts of one kind, which stand in this member. */
    private static function said(Node $body, string $kind, string $member): string
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
     * All the items: a call of a reasoning model is refused without the reasoning before it, and so is
     * reasoning that nothing came of, which an answer that was cut off ends with.
     */
    public function assistantMessages(Node $body): array
    {
        $this->toolCalls($body);
        $items = [];
        foreach ($body->required('output')->items() as $item) {
            if ($item->isType(self::CALL)) {
                $item->value->arguments = Node::argumentsText($item->value->arguments ?? null);
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
