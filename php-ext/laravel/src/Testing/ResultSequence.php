<?php

declare(strict_types=1);

namespace Pillion\Laravel\Testing;

use OutOfBoundsException;
use Pillion\ToolResult;

/** The results that a faked tool returns, in order. */
final class ResultSequence
{
    private bool $failsWhenEmpty = true;

    /** The result of every call after the end of the sequence. */
    private mixed $finalResult = null;

    /** @param list<mixed> $results */
    public function __construct(private array $results = [])
    {
    }

    /** @param mixed $result as in {@see PillionFake::__construct()} */
    public function push(mixed $result): self
    {
        $this->results[] = $result;
        return $this;
    }

    public function pushError(string $error, string $errorCode = 'internal_error'): self
    {
        return $this->push(new ToolResult('', 'faked', null, success: false, error: $error, errorCode: $errorCode));
    }

    /** Sets the result of every call after the end of the sequence. */
    public function whenEmpty(mixed $result): self
    {
        $this->failsWhenEmpty = false;
        $this->finalResult = $result;
        return $this;
    }

    public function dontFailWhenEmpty(): self
    {
        return $this->whenEmpty(null);
    }

    public function isEmpty(): bool
    {
        return $this->results === [];
    }

    /** @throws OutOfBoundsException when there are no more results */
    public function next(): mixed
    {
        if ($this->results !== []) {
            return array_shift($this->results);
        }
        if ($this->failsWhenEmpty) {
            throw new OutOfBoundsException('A faked tool was called more often than its ResultSequence has results: add results with push(), or call whenEmpty().');
        }
        return $this->finalResult;
    }
}
