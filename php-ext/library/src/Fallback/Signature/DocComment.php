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
        $trimmedComment = trim((string) $comment);
        $textAfterOpening = str_starts_with($trimmedComment, '/**') ? substr($trimmedComment, 3) : '';
        $body = str_ends_with($textAfterOpening, '*/') ? substr($textAfterOpening, 0, -2) : $textAfterOpening;
        $summaryLines = $tags = [];
        $isInSummary = true;
        foreach (explode("\n", $body) as $rawLine) {
            $trimmedLine = trim($rawLine);
            $line = trim(str_starts_with($trimmedLine, '*') ? substr($trimmedLine, 1) : $trimmedLine);
            if (str_starts_with($line, '@')) {
                $tags[] = $line;
            } elseif ($tags !== []) {
                // A line break marks an empty line, which ends the description in the tag. The
                // parser of the tag ignores the text after the line break.
                $tags[] = array_pop($tags) . ($line === '' ? "\n" : ' ') . $line;
            } elseif ($line === '') {
                $isInSummary = $isInSummary && $summaryLines === [];
            } elseif ($isInSummary) {
                $summaryLines[] = $line;
            }
        }
        $summary = implode(' ', $summaryLines);
        $this->summary = $summary === '' || strtolower($summary) === '{@inheritdoc}' ? null : $summary;
        $this->parameters = array_values(array_filter(array_map(self::parseParameter(...), $tags)));
    }

    /** Returns the type of a parameter, as written. */
    public function parameterType(string $name): ?string
    {
        $firstType = null;
        foreach ($this->parameters as $parameter) {
            if ($parameter['name'] === $name && $parameter['type'] !== '') {
                if ($parameter['isExact']) {
                    return $parameter['type'];
                }
                $firstType ??= $parameter['type'];
            }
        }
        return $firstType;
    }

    /** Returns the description of a parameter. */
    public function parameterDescription(string $name): ?string
    {
        foreach ($this->parameters as $parameter) {
            if ($parameter['name'] === $name && $parameter['text'] !== '') {
                return $parameter['text'];
            }
        }
        return null;
    }

    /** @return ?array{name: string, type: string, text: string, isExact: bool} */
    private static function parseParameter(string $tag): ?array
    {
        // No supported type contains a dollar sign, so the first dollar sign starts the parameter's name.
        $pattern = '/^@((?:phpstan-|psalm-)?)param\s([^$\n]*)\$(\w*)([^\n]*)/u';
        if (preg_match($pattern, $tag, $matches) !== 1) {
            return null;
        }
        return [
            'name' => $matches[3],
            'type' => trim(rtrim(trim($matches[2]), '.&')),
            'text' => implode(' ', preg_split('/\s+/', $matches[4], -1, PREG_SPLIT_NO_EMPTY)),
            // `@phpstan-param` and `@psalm-param` take precedence, because they are more precise
            // than `@param`.
            'isExact' => $matches[1] !== '',
        ];
    }
}
