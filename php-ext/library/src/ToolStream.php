<?php

declare(strict_types=1);

namespace Pillion;

/**
 * A call of a tool, whose progress the sidecar does not tell: there are no reports, only the
 * result. The call is made when the stream is first looked at.
 *
 * @implements \Iterator<int, Progress>
 */
final class ToolStream implements \Iterator
{
    private ?ToolResult $result = null;

    /** @param ?\Closure(): ToolResult $call null once it is made: it may have run also where it failed */
    private function __construct(private ?\Closure $call)
    {
    }

    /** The report; null at the end. */
    public function current(): ?Progress
    {
        return null;
    }

    /** How many reports came before it. */
    public function key(): int
    {
        return 0;
    }

    /**
     * Waits for the next report, or for the end of the call.
     *
     * @throws Exception\PillionException as {@see McpClient::callTool()}
     */
    public function next(): void
    {
        $this->getResult();
    }

    /** Waits for the first report. There is no way back, as in a generator. */
    public function rewind(): void
    {
        $this->getResult();
    }

    public function valid(): bool
    {
        $this->getResult();
        return false;
    }

    /**
     * Runs the call to its end; reports that come meanwhile are dropped.
     *
     * @throws Exception\PillionException as {@see McpClient::callTool()}
     */
    public function getResult(): ToolResult
    {
        if ($this->result === null) {
            $call = $this->call ?? throw new \Error('The call has ended without a result');
            $this->call = null;
            $this->result = $call();
        }
        return $this->result;
    }
}
