<?php

declare(strict_types=1);

namespace Pillion\Fallback\Http;

/**
 * An HTTP request to the sidecar. The method is POST if the request has a body, otherwise GET or HEAD.
 *
 * @internal
 */
final class Request
{
    /**
     * @param array<string, string> $headers by name in lower case
     * @param ?string               $body    JSON, unless the headers contain another content type
     */
    public function __construct(
        public readonly string $path,
        public readonly array $headers = [],
        public readonly ?string $body = null,
        private readonly bool $isHead = false,
    ) {
    }

    public function method(): string
    {
        return $this->body !== null ? 'POST' : ($this->isHead ? 'HEAD' : 'GET');
    }

    /** @return list<string> the header lines, including the content type of the body */
    public function formatHeaders(): array
    {
        $lines = [];
        foreach ($this->headers as $name => $value) {
            $lines[] = "$name: $value";
        }
        if ($this->body !== null && !isset($this->headers['content-type'])) {
            $lines[] = 'content-type: application/json';
        }
        return $lines;
    }
}
