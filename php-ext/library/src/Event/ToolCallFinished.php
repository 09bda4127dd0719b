<?php

declare(strict_types=1);

namespace Pillion\Event;

/** A tool has been called. */
final class ToolCallFinished
{
    /**
     * @param string $toolName the tool
     * @param string $toolCallId the call
     * @param ?string $server its label, or else where it is; null for a tool in PHP
     * @param bool $success whether it worked
     * @param ?string $errorCode as that of a ToolResult, when it did not
     * @param float $seconds how long it took
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
