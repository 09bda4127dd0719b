<?php

declare(strict_types=1);

namespace Pillion\Laravel\Testing;

/** A call recorded in a test. */
final class RecordedCall
{
    /**
     * @param array<string, mixed> $arguments
     * @param ?string              $server    the MCP server, if the tool was called through `Pillion::server()`
     */
    public function __construct(
        public readonly string $tool,
        public readonly array $arguments,
        public readonly string $id,
        public readonly ?string $server = null,
    ) {
    }
}
