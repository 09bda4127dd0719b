<?php

declare(strict_types=1);

namespace Pillion\Fallback\Signature;

/**
 * The parsed doc comment of a function.
 *
 * @internal
 */
final class DocComment
{
    /** The first paragraph, on one line. */
    public readonly ?string $summary;
    /** @var list<array{name: string, type: string, text: string, isExact: bool}> */
    private readonly array $parameters;

    /** @param string|false $comment the complete doc comment, with its delimiters; any other value counts as empty */
    public function __construct(string|false $comment)
    {
        $comment = trim((string) $comment);
        $inner = str_starts_with($comment, '/**') ? substr($comment, 3) : '';
        $inner = str_ends_with($inner, '*/') ? substr($inner, 0, -2) : $inner;
        $summary = $tags = [];
        $inSummary = true;
        foreach (explode("\n", $inner) as $line) {
            $line = trim($line);
            $line = trim(str_starts_with($line, '*') ? substr($line, 1) : $line);
            if (str_starts_with($line, '@')) {
                $tags[] = $line;
            } elseif ($tags !== []) {
                // An empty line ends the description in a tag.
                $tags[] = array_pop($tags) . ($line === '' ? "\n" : ' ') . $line;
            } elseif ($line === '') {
                $inSummary = $inSummary && $summary === [];
            } elseif ($inSummary) {
                $summary[] = $line;
            }
        }
        $summary = implode(' ', $summary);
        $this->summary = $summary === '' || strtolower($summary) === '{@inheritdoc}' ? null : $summary;
        $this->parameters = array_values(array_filter(array_map(self::parameter(...), $tags)));
    }

    /** Returns the type of a parameter, as written. */
    public function typeOf(string $name): ?string
    {
        $first = null;
        foreach ($this->parameters as $parameter) {
            if ($parameter['name'] === $name && $parameter['type'] !== '') {
                if ($parameter['isExact']) {
                    return $parameter['type'];
                }
                $first ??= $parameter['type'];
            }
        }
        return $first;
    }

    /** Returns the description of a parameter. */
    public function descriptionOf(string $name): ?string
    {
        foreach ($this->parameters as $parameter) {
            if ($parameter['name'] === $name && $parameter['text'] !== '') {
                return $parameter['text'];
            }
        }
        return null;
    }

    /** @return ?array{name: string, type: string, text: string, isExact: bool} */
    private static function parameter(string $tag): ?array
    {
        // No supported type contains a dollar sign, so the first one starts the parameter's name.
        $pattern = '/^@((?:phpstan-|psalm-)?)param\s([^$\n]*)\$(\w*)([^\n]*)/u';
        if (preg_match($pattern, $tag, $found) !== 1) {
            return null;
        }
        return [
            'name' => $found[3],
            'type' => trim(rtrim(trim($found[2]), '.&')),
            'text' => implode(' ', preg_split('/\s+/', $found[4], -1, PREG_SPLIT_NO_EMPTY)),
            // `@phpstan-param` and `@psalm-param` are more precise than `@param`.
            'isExact' => $found[1] !== '',
        ];
    }
}
