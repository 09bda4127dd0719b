<?php

declare(strict_types=1);

namespace Pillion\Fallback\Provider;

use Pillion\Fallback\Json;
use Pillion\ToolDefinition;
use Pillion\ToolResult;

/**
 * OpenAI's Chat Completions API, and compatible servers.
 *
 * @internal
 */
final class OpenAiChat extends Format
{
    protected function name(): string
    {
        return 'openai';
    }

    public function tool(ToolDefinition $definition, bool $alwaysStrict): array
    {
        [$parameters, $isStrict] = StrictSchema::parameters($definition);
        $function = [
            'name' => $definition->name,
            'description' => $definition->description,
            'parameters' => Json::toLosslessArrays($parameters),
        ];
        if ($alwaysStrict || $isStrict) {
            $function['strict'] = $isStrict;
        }
        return ['type' => 'function', 'function' => $function];
    }

    public function toolCalls(ResponseNode $body): array
    {
        $calls = [];
        foreach ($this->message($body)->optional('tool_calls')?->items() ?? [] as $call) {
            // Some compatible servers omit the type. Calls of the type `custom` belong to tools that Pillion
            // does not define.
            if (($call->optional('type')?->text() ?? 'function') !== 'function') {
                continue;
            }
            $function = $call->required('function');
            $index = $call->optional('index')?->value;
            $calls[] = self::call(
                $call->required('id')->text(),
                $function->required('name')->text(),
                ResponseNode::arguments($function->optional('arguments')),
                is_int($index) && $index >= 0 && $index <= 0xFFFFFFFF ? $index : null,
            );
        }
        return $calls;
    }

    /**
     * Returns the text, or the refusal if there is no other text. The refusal is a member of the message or a
     * part of its content.
     */
    public function text(ResponseNode $body): string
    {
        $text = $this->partsText($body, 'text');
        return $text !== '' ? $text : $this->message($body)->optional('refusal')?->text() ?? $this->partsText($body, 'refusal');
    }

    /** Returns the text of the content parts of one kind; plain string content counts as `text`. */
    private function partsText(ResponseNode $body, string $kind): string
    {
        $content = $this->message($body)->optional('content');
        if ($content === null || is_string($content->value)) {
            return $kind === 'text' ? $content?->text() ?? '' : '';
        }
        $text = '';
        foreach ($content->items() as $part) {
            if ($part->isType($kind)) {
                $text .= $part->required($kind)->text();
            }
        }
        return $text;
    }

    public function assistantMessages(ResponseNode $body): array
    {
        // Reading the calls first makes sure that only a valid message is returned.
        $this->toolCalls($body);
        $message = ResponseNode::emptyMapIfEmpty($this->message($body)->value);
        if ($message instanceof \stdClass) {
            if (!property_exists($message, 'role')) {
                $message->role = 'assistant';
            }
            if (($message->tool_calls ?? []) === []) {
                // The API requires content or tool calls.
                $message->content ??= '';
            }
        }
        foreach ($message->tool_calls ?? [] as $call) {
            if (($call->function ?? null) instanceof \stdClass) {
                $call->function->arguments = ResponseNode::argumentsText($call->function->arguments ?? null);
            }
        }
        return [$message];
    }

    public function results(array $results): array
    {
        return array_map(static fn (ToolResult $result): array => $result->toMessageFormat(), $results);
    }

    private function message(ResponseNode $body): ResponseNode
    {
        return $body->required('choices')->first()->required('message');
    }
}
