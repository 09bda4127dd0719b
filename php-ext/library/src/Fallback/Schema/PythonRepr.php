<?php

declare(strict_types=1);

namespace Pillion\Fallback\Schema;

use Pillion\Fallback\Json;

/**
 * Formats a value like Python's `repr`: error messages list allowed values in that form.
 *
 * @internal
 */
final class PythonRepr
{
    public static function of(mixed $tree): string
    {
        if ($tree instanceof \stdClass) {
            $entries = [];
            foreach (get_object_vars($tree) as $key => $value) {
                $entries[] = self::quote((string) $key) . ': ' . self::of($value);
            }
            return '{' . implode(', ', $entries) . '}';
        }
        return match (true) {
            $tree === null => 'None',
            is_bool($tree) => $tree ? 'True' : 'False',
            is_string($tree) => self::quote($tree),
            is_array($tree) => '[' . implode(', ', array_map(self::of(...), $tree)) . ']',
            default => str_replace('.0e', 'e', Json::encode($tree)),
        };
    }

    /** Uses single quotes unless the text contains single quotes but no double quotes, like Python. */
    private static function quote(string $text): string
    {
        $quote = str_contains($text, "'") && !str_contains($text, '"') ? '"' : "'";
        $text = strtr($text, ['\\' => '\\\\', "\n" => '\n', "\r" => '\r', "\t" => '\t', $quote => "\\$quote"]);
        $text = preg_replace_callback(
            '/[\x00-\x1f\x7f]|\xc2[\x80-\x9f]/',
            static fn (array $found): string => sprintf('\x%02x', ord(substr($found[0], -1))),
            $text,
        );
        return $quote . $text . $quote;
    }
}
