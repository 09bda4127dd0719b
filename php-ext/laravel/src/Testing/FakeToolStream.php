<?php

declare(strict_types=1);

namespace Pillion\Laravel\Testing;

use Iterator;
use Pillion\Progress;
use Pillion\ToolResult;

/**
 * A fake for {@see \Pillion\ToolStream}; faked tools report no progress.
 *
 * @implements Iterator<int, Progress>
 */
final class FakeToolStream implements Iterator
{
    public function __construct(private readonly ToolResult $result)
    {
    }

    public function current(): ?Progress
    {
        return null;
    }

    public function key(): int
    {
        return 0;
    }

    public function next(): void
    {
    }

    public function rewind(): void
    {
    }

    public function valid(): bool
    {
        return false;
    }

    public function getResult(): ToolResult
    {
        return $this->result;
    }
}
