<?php

declare(strict_types=1);

namespace Pillion;

use Pillion\Fallback\Argument;
use Pillion\Fallback\Failure;
use Pillion\Fallback\Json;

/**
 * A tool call requested by a model. The JSON form is OpenAI's.
 */
class ToolCall implements \JsonSerializable
{
    /** @param array<string, mixed>|string $arguments an array, or a JSON string as models send it */
    public function __construct(
        public readonly string $id,
        public readonly string $name,
        public readonly array|string $arguments = [],
        public readonly string $type = 'function',
        public readonly ?int $index = null,
    ) {
        Argument::checkTexts([1 => $id, 2 => $name, 4 => $type]);
    }

    /**
     * @param array{id: string, name?: string, arguments?: array<string, mixed>|string, index?: int, function?: array{name: string, arguments?: array<string, mixed>|string}} $call
     *        the flat form, or OpenAI's form with the name and arguments under `function`
     *
     * @throws Exception\InvalidInputException when the id or the name is missing
     */
    public static function fromArray(array $call): ToolCall
    {
        $function = is_array($call['function'] ?? null) ? $call['function'] : [];
        $findMember = static fn (string $key): mixed => $function[$key] ?? $call[$key] ?? null;
        $readText = static function (string $key) use ($findMember): string {
            $value = $findMember($key);
            if (!is_string($value)) {
                $actualType = $value === null ? 'nothing' : get_debug_type($value);
                throw Failure::invalidInput("A tool call needs a string '$key', $actualType given");
            }
            if (!Argument::isUtf8($value)) {
                throw Failure::invalidInput("The '$key' of a tool call is not valid UTF-8");
            }
            return $value;
        };
        $arguments = $findMember('arguments') ?? [];
        if (!is_array($arguments) && !is_string($arguments)) {
            throw Failure::invalidInput("The 'arguments' of a tool call must be an array or a JSON string");
        }
        $index = $findMember('index');
        return new self($readText('id'), $readText('name'), $arguments, index: is_int($index) ? $index : null);
    }

    /** @return array{id: string, type: string, name: string, arguments: array<string, mixed>|string, index: ?int} */
    public function toArray(): array
    {
        return [
            'id' => $this->id,
            'type' => $this->type,
            'name' => $this->name,
            'arguments' => $this->arguments,
            'index' => $this->index,
        ];
    }

    /**
     * @return array{id: string, type: string, function: array{name: string, arguments: string}}
     *
     * @throws Exception\InvalidInputException when the arguments cannot be converted to JSON
     */
    public function jsonSerialize(): array
    {
        $arguments = is_array($this->arguments) ? Json::encodeArguments($this->arguments) : $this->arguments;
        return [
            'id' => $this->id,
            'type' => $this->type,
            'function' => ['name' => $this->name, 'arguments' => $arguments],
        ];
    }
}
