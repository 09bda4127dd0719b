<?php

declare(strict_types=1);

namespace Pillion\Fallback\Schema;

/**
 * A violation of a schema, with the same message as in the engine.
 *
 * @internal
 */
final class Violation
{
    /** Maximum length of a path or reason in a message, in characters. */
    private const MAX_PART_LEN = 200;

    private function __construct(
        public readonly string $message,
        private readonly string $path,
        /** The requirement of the schema, unless it is a type or a list of values. */
        public readonly ?string $reason = null,
    ) {
    }

    public static function missing(string $path, string $property): self
    {
        $path = self::join($path, $property);
        return new self('Missing required parameter: ' . self::shorten($path), $path);
    }

    public static function type(string $path, string $expected): self
    {
        return self::at($path, static fn (string $path): string => "Invalid type for $path: expected $expected");
    }

    /** @param list<mixed> $allowed */
    public static function notAllowed(string $path, array $allowed): self
    {
        $allowed = PythonRepr::of($allowed);
        return self::at($path, static fn (string $path): string => "Invalid value for $path: must be one of $allowed");
    }

    public static function other(string $path, string $reason): self
    {
        $reason = self::shorten($reason);
        return self::at($path, static fn (string $path): string => "Invalid value for $path: $reason", $reason);
    }

    /** Returns the top-level parameter that the violation concerns. */
    public function parameter(): string
    {
        return preg_split('/[.[]/', $this->path, 2)[0];
    }

    public static function join(string $path, int|string $property): string
    {
        return $path === '' ? (string) $property : "$path.$property";
    }

    /** @param \Closure(string): string $message */
    private static function at(string $path, \Closure $message, ?string $reason = null): self
    {
        $path = $path === '' ? 'arguments' : $path;
        return new self($message(self::shorten($path)), $path, $reason);
    }

    private static function shorten(string $text): string
    {
        return preg_match('/^.{' . self::MAX_PART_LEN . '}(?=.)/us', $text, $found) === 1 ? "$found[0]..." : $text;
    }
}
