<?php

namespace Pillion;

/**
 * A call of a tool that is under way, with its progress as it comes. The call goes on while
 * PHP does something else; what the server asks waits until the stream is looked at. A
 * stream that is dropped before its end cancels the call.
 *
 * @implements \Iterator<int, Progress>
 */
final class ToolStream implements \Iterator
{
    private ?McpClient $client = null;
    private ?Progress $current = null;
    private ?ToolResult $result = null;

    private function __construct()
    {
    }

    /** Cancels the call if it has not ended; a dispatcher is told so. */
    public function __destruct()
    {
    }

    /** The report; null at the end. */
    public function current(): ?Progress
    {
    }

    /** How many reports came before it. */
    public function key(): int
    {
    }

    /**
     * Waits for the next report, or for the end of the call.
     *
     * @throws Exception\PillionException as {@see McpClient::callTool()}
     */
    public function next(): void
    {
    }

    /** Waits for the first report. There is no way back, as in a generator. */
    public function rewind(): void
    {
    }

    public function valid(): bool
    {
    }

    /**
     * Runs the call to its end; reports that come meanwhile are dropped.
     *
     * @throws Exception\PillionException as {@see McpClient::callTool()}
     */
    public function getResult(): ToolResult
    {
    }
}
