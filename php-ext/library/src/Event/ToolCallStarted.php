<?php

declare(strict_types=1);

namespace Pillion\Event;

/** A tool is about to be called. */
final class ToolCallStarted
{
    /**
     * @param string $toolName the tool
     * @param string $toolCallId the call
     * @param ?string $server its label, or else where it is; null for a tool in PHP
     */
    public function __construct(
        public readonly string $toolName,
        public readonly string $toolCallId,
        public readonly ?string $server,
    ) {
    }
}
