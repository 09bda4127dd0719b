<?php

declare(strict_types=1);

namespace Pillion\Event;

/** The event that reports that a tool call is about to start. */
final class ToolCallStarted
{
    /**
     * @param string $toolName the name of the tool
     * @param string $toolCallId the ID of the call
     * @param ?string $server the server's label or address; null for a PHP tool
     */
    public function __construct(
        public readonly string $toolName,
        public readonly string $toolCallId,
        public readonly ?string $server,
    ) {
    }
}
