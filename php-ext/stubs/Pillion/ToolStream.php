<?php

namespace Pillion;

/**
 * A running tool call whose progress reports arrive as they happen. The call continues while PHP does other
 * work; requests from the server wait until the caller reads the stream. Destroying an unfinished stream
 * cancels the call.
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

    /** Cancels the call if it has not finished, and notifies the event dispatcher. */
    public function __destruct()
    {
    }

    /** Returns the current progress report; null at the end. */
    public function current(): ?Progress
    {
    }

    /** Returns the number of reports before the current report. */
    public function key(): int
    {
    }

    /**
     * Waits for the next report or for the end of the call.
     *
     * @throws Exception\PillionException as {@see McpClient::callTool()}
     */
    public function next(): void
    {
    }

    /** Waits for the first report. Like a generator, a started stream cannot be rewound. */
    public function rewind(): void
    {
    }

    public function valid(): bool
    {
    }

    /**
     * Runs the call to its end and returns the result. Reports that arrive in the meantime are discarded.
     *
     * @throws Exception\PillionException as {@see McpClient::callTool()}
     */
    public function getResult(): ToolResult
    {
    }
}
