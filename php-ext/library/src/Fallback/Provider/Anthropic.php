<?php

declare(strict_types=1);

namespace Pillion\Fallback\Provider;

use Pillion\Fallback\InputSchema;
use Pillion\Fallback\Json;
use Pillion\ToolDefinition;

/**
 * Anthropic's Messages API.
 *
 * @internal
 */
final class Anthropic extends Format
{
    private const CALL = 'tool_use';

    /** Blocks with an `input`; Anthropic itself runs all but the first. */
    private const WITH_INPUT = [self::CALL, 'server_tool_use', 'mcp_tool_use'];

    /** Block types of a model's reasoning. */
    private const THINKING = ['thinking', 'redacted_thinking'];

    protected function name(): string
    {
        return 'anthropic';
    }

    public function tool(ToolDefinition $definition, bool $alwaysStrict): array
    {
        return [
            'name' => $definition->name,
            'description' => $definition->description,
            'input_schema' => Json::toLosslessArrays(InputSchema::tree($definition)),
        ];
    }

    public function toolCalls(ResponseNode $body): array
    {
        $calls = [];
        foreach ($body->required('content')->items() as $block) {
            if ($block->isType(self::CALL)) {
                $calls[] = self::call(
                    $block->required('id')->text(),
                    $block->required('name')->text(),
                    ResponseNode::arguments($block->optional('input')),
                );
            }
        }
        return $calls;
    }

    public function text(ResponseNode $body): string
    {
        $text = '';
        foreach ($body->required('content')->items() as $block) {
            if ($block->isType('text')) {
                $text .= $block->required('text')->text();
            }
        }
        return $text;
    }

    /**
     * Returns the content unchanged, because the API verifies the signatures of thinking blocks. Two kinds of
     * blocks are removed: blank text blocks, which models produce but the API rejects, and trailing thinking
     * blocks, with which no message may end.
     */
    public function assistantMessages(ResponseNode $body): array
    {
        $this->toolCalls($body);
        $content = [];
        foreach ($body->required('content')->items() as $block) {
            $kind = $block->required('type')->text();
            if ($kind === 'text' && ResponseNode::isBlank($block->required('text')->text())) {
                continue;
            }
            if (in_array($kind, self::WITH_INPUT, true) && property_exists($block->value, 'input')) {
                $block->value->input = ResponseNode::argumentsObject($block->value->input);
            }
            $content[] = $block->value;
        }
        while ($content !== [] && in_array(end($content)->type, self::THINKING, true)) {
            array_pop($content);
        }
        // A turn may be empty, and the API rejects a message without content.
        return $content === [] ? [] : [(object) ['role' => 'assistant', 'content' => $content]];
    }

    /** Returns one message: the API requires all results of a turn in the next message. */
    public function results(array $results): array
    {
        $blocks = [];
        foreach ($results as $result) {
            $block = [
                'type' => 'tool_result',
                'tool_use_id' => $result->toolCallId,
                'content' => self::content($result),
            ];
            $blocks[] = $result->success ? $block : $block + ['is_error' => true];
        }
        return [['role' => 'user', 'content' => $blocks]];
    }
}
