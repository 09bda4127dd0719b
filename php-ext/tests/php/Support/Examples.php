<?php

declare(strict_types=1);

namespace Pillion\Tests\Support;

/** The examples of a page: PHP blocks, each with its output in the text block after it. */
final class Examples
{
    public function __construct(private readonly string $page)
    {
    }

    /** @return iterable<string, array{string, string}> the code and what it prints, by the section */
    public function all(): iterable
    {
        $pattern = '/^## (.+?)$|^```php\n(.*?)^```\n^```text\n(.*?)^```$/ms';
        preg_match_all($pattern, (string) file_get_contents($this->page), $found, PREG_SET_ORDER);
        $section = '';
        foreach ($found as $match) {
            if ($match[1] !== '') {
                $section = $match[1];
            } else {
                yield $section => [$match[2], $match[3]];
            }
        }
    }

    /** Returns the number of PHP blocks of the page, with or without output. */
    public function blocks(): int
    {
        return (int) preg_match_all('/^```php$/m', (string) file_get_contents($this->page));
    }
}
