<?php

declare(strict_types=1);

namespace Pillion\Fallback\Provider;

use Pillion\Exception\InvalidInputException;
use Pillion\Fallback\Failure;
use Pillion\Fallback\Json;

/**
 * A node of a response body: its tree, and its path for error messages.
 *
 * @internal
 */
final class ResponseNode
{
    public function __construct(
        private readonly string $provider,
        public readonly mixed $value,
        private readonly string $path = '',
    ) {
    }

    /**
     * Returns the member, or null if the member is absent or null. PHP writes an empty object as `[]`, so
     * `[]` has no members.
     */
    public function optional(string $key): ?self
    {
        if (!$this->value instanceof \stdClass && $this->value !== []) {
            throw $this->wrongType('an object');
        }
        $value = $this->value->$key ?? null;
        return $value === null ? null : new self($this->provider, $value, $this->pathOf($key));
    }

    /** Returns the member; the member must exist. */
    public function required(string $key): self
    {
        return $this->optional($key) ?? throw $this->missing($this->pathOf($key));
    }

    /** @return list<self> */
    public function items(): array
    {
        if (!is_array($this->value)) {
            throw $this->wrongType('an array');
        }
        $items = [];
        foreach ($this->value as $index => $item) {
            $items[] = new self($this->provider, $item, "{$this->path}[$index]");
        }
        return $items;
    }

    /** Returns the first item; the item must exist. */
    public function first(): self
    {
        return $this->items()[0] ?? throw $this->missing("{$this->path}[0]");
    }

    public function text(): string
    {
        return is_string($this->value) ? $this->value : throw $this->wrongType('a string');
    }

    /** Returns whether the required member `type` has this value. */
    public function isType(string $kind): bool
    {
        return $this->required('type')->text() === $kind;
    }

    /**
     * Returns the arguments for the executor: the given value, or `{}` for a missing value and for PHP's
     * `[]`.
     */
    public static function arguments(?self $node): mixed
    {
        return $node === null ? new \stdClass() : self::emptyMapIfEmpty($node->value);
    }

    /**
     * Returns the arguments as the JSON string that OpenAI expects in a conversation. Text that is already a
     * JSON object stays unchanged; any other value is wrapped in an object, because many OpenAI-compatible
     * servers reject a conversation with invalid arguments.
     */
    public static function argumentsText(mixed $arguments): string
    {
        if (is_string($arguments)) {
            try {
                if (Json::parse($arguments) instanceof \stdClass) {
                    return $arguments;
                }
            } catch (\JsonException) {
            }
        }
        return Json::encode(self::argumentsObject($arguments));
    }

    /**
     * Returns the arguments as the object that Anthropic and Google expect in a conversation. A model that
     * was cut off may leave arguments that are not an object.
     */
    public static function argumentsObject(mixed $arguments): \stdClass
    {
        $object = $arguments;
        if (is_string($arguments)) {
            try {
                $object = self::isBlank($arguments) ? null : Json::parse($arguments);
            } catch (\JsonException) {
                $object = $arguments;
            }
        }
        return match (true) {
            $object instanceof \stdClass => $object,
            $object === [], $object === null && !is_string($arguments), self::isBlank($arguments) => new \stdClass(),
            default => (object) ['INVALID_JSON' => Json::text($arguments)],
        };
    }

    /** Returns whether the value is a blank string. */
    public static function isBlank(mixed $text): bool
    {
        return is_string($text) && preg_match('/^[\s\x{85}]*+$/Du', $text) === 1;
    }

    /** Returns the value, or `{}` for PHP's `[]`. */
    public static function emptyMapIfEmpty(mixed $value): mixed
    {
        return $value === [] ? new \stdClass() : $value;
    }

    private function pathOf(string $key): string
    {
        return $this->path === '' ? $key : "$this->path.$key";
    }

    private function missing(string $path): InvalidInputException
    {
        return Failure::invalidInput("Malformed response of the provider '$this->provider': $path is missing");
    }

    private function wrongType(string $expected): InvalidInputException
    {
        $path = $this->path === '' ? 'the body' : $this->path;
        $found = match (true) {
            $this->value === null => 'null',
            is_bool($this->value) => 'a boolean',
            is_int($this->value), is_float($this->value) => 'a number',
            is_string($this->value) => 'a string',
            is_array($this->value) => 'an array',
            default => 'an object',
        };
        return Failure::invalidInput(
            "Malformed response of the provider '$this->provider': $path is $found, expected $expected",
        );
    }
}
