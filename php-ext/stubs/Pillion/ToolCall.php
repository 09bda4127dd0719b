<?php

namespace Pillion;

/**
 * A tool call requested by a model. The JSON form is OpenAI's.
 */
class ToolCall implements \JsonSerializable
{
    public readonly string $id;
    public readonly string $name;
    /** @var array<string, mixed>|string an array, or a JSON string as models send it */
    public readonly array|string $arguments;
    public readonly string $type;
    public readonly ?int $index;

    /** @param array<string, mixed>|string $arguments */
    public function __construct(
        string $id,
        string $name,
        array|string $arguments = [],
        string $type = 'function',
        ?int $index = null,
    ) {
    }

    /**
     * @param array{id: string, name?: string, arguments?: array<string, mixed>|string, index?: int, function?: array{name: string, arguments?: array<string, mixed>|string}} $call
     *        the flat form, or OpenAI's form with the name and arguments under `function`
     *
     * @throws Exception\InvalidInputException when the id or the name is missing
     */
    public static function fromArray(array $call): ToolCall
    {
    }

    /** @return array{id: string, type: string, name: string, arguments: array<string, mixed>|string, index: ?int} */
    public function toArray(): array
    {
    }

    /**
     * @return array{id: string, type: string, function: array{name: string, arguments: string}}
     *
     * @throws Exception\InvalidInputException when the arguments cannot be converted to JSON
     */
    public function jsonSerialize(): array
    {
    }
}
