<?php

declare(strict_types=1);

namespace Pillion\Fallback\Provider;

use Pillion\Exception\InvalidInputException;
use Pillion\Fallback\Failure;
use Pillion\Fallback\Json;

/**
 * A place in a response body: the tree there and the path to it, for the errors.
 *
 * @internal
 */
final class Node
{
    public function __construct(
        private readonly string $provider,
        public readonly mixed $value,
        private readonly string $path = '',
    ) {
    }

    /**
     * The member, or null if it is absent or null. PHP writes an empty object as `[]`, so
     * that has no members.
     */
    public function optional(string $key): ?self
    {
        if (!$this->value instanceof \stdClass && $this->value !== []) {
            throw $this->wrongType('an object');
        }
        $value = $this->value->$key ?? null;
        return $value === null ? null : new self($this->provider, $value, $this->pathOf($key));
    }

    /** The member, which must be there. */
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

    /** The first item, which must be there. */
    public function first(): self
    {
        return $this->items()[0] ?? throw $this->missing("{$this->path}[0]");
    }

    public function text(): string
    {
        return is_string($this->value) ? $this->value : throw $this->wrongType('a string');
    }

    /** Whether the member `type`, which must be there, is this. */
    public function isType(string $kind): bool
    {
        return $this->required('type')->text() === $kind;
    }

    /** Arguments as the executor takes them: what came, or `{}` for nothing and for PHP's `[]`. */
    public static function arguments(?self $node): mixed
    {
        return $node === null ? new \stdClass() : self::restored($node->value);
    }

    /**
     * Arguments as the string of JSON that OpenAI wants in a conversation: text that is an object as it is,
     * and anything else made one, for many imitations refuse a conversation with arguments that are none.
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
     * Arguments as the object that Anthropic and Google want in a conversation: a model that is cut off
     * leaves some that are none.
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

    /** Whether it is text without a word. */
    public static function isBlank(mixed $text): bool
    {
        return is_string($text) && preg_match('/^[\s\x{85}]*+$/Du', $text) === 1;
    }

    /** The value, or `{}` if it is what PHP makes of that. */
    public static function restored(mixed $value): mixed
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
