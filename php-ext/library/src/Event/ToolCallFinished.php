<?php

declare(strict_types=1);

namespace Pillion\Event;

/** The event that reports that a tool call has finished. */
final class ToolCallFinished
{
    /**
     * @param string $toolName the name of the tool
     * @param string $toolCallId the ID of the call
     * @param ?string $server the server's label or address; null for a PHP tool
     * @param bool $success whether the call succeeded
     * @param ?string $errorCode the error code of a failed call, as in {@see \Pillion\ToolResult::$errorCode}
     * @param float $seconds the duration of the call
     */
    public function __construct(
        public readonly string $toolName,
        public readonly string $toolCallId,
        public readonly ?string $server,
        public readonly bool $success,
        public readonly ?string $errorCode,
        public readonly float $seconds,
    ) {
    }
}
