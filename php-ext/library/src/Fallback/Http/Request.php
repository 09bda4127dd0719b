<?php

declare(strict_types=1);

namespace Pillion\Fallback\Http;

/**
 * An HTTP request to the sidecar. The method is POST if the request has a body, otherwise GET.
 *
 * @internal
 */
final class Request
{
    /** @param array<string, string> $headers */
    public function __construct(
        public readonly string $path,
        public readonly array $headers = [],
        public readonly ?string $body = null,
    ) {
    }

    public function method(): string
    {
        return $this->body === null ? 'GET' : 'POST';
    }

    /** @return list<string> the header lines, including the content type of the body */
    public function formatHeaders(): array
    {
        $lines = [];
        foreach ($this->headers as $name => $value) {
            $lines[] = "$name: $value";
        }
        if ($this->body !== null) {
            $lines[] = 'content-type: application/json';
        }
        return $lines;
    }
}
