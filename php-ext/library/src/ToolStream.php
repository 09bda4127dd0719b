<?php

declare(strict_types=1);

namespace Pillion;

/**
 * A running tool call whose progress reports arrive as they happen. The call continues while PHP does other work;
 * requests from the server wait until the caller reads the stream. Destroying an unfinished stream cancels the call.
 *
 * With the library, the call starts when the stream is first read, and the stream has no progress reports, only a
 * result: the sidecar does not forward progress.
 *
 * @implements \Iterator<int, Progress>
 */
final class ToolStream implements \Iterator
{
    private ?ToolResult $result = null;

    /** @param ?\Closure(): ToolResult $call null after the call has started, so that a failed call does not run twice */
    private function __construct(private ?\Closure $call)
    {
    }

    /** Returns the current progress report; null at the end. */
    public function current(): ?Progress
    {
        return null;
    }

    /** Returns the number of reports before the current report. */
    public function key(): int
    {
        return 0;
    }

    /**
     * Waits for the next report or for the end of the call.
     *
     * @throws Exception\PillionException as {@see McpClient::callTool()}
     */
    public function next(): void
    {
        $this->getResult();
    }

    /** Waits for the first report. Like a generator, a started stream cannot be rewound. */
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
     * Runs the call to its end and returns the result. Reports that arrive in the meantime are discarded.
     *
     * @throws Exception\PillionException as {@see McpClient::callTool()}
     */
    public function getResult(): ToolResult
    {
        if ($this->result === null) {
            $call = $this->call ?? throw new \Error('The tool call has ended without a result');
            $this->call = null;
            $this->result = $call();
        }
        return $this->result;
    }
}
