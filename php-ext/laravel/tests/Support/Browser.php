<?php

declare(strict_types=1);

namespace Pillion\Laravel\Tests\Support;

use RuntimeException;

/** A browser with its own cookies. It follows no redirects and runs no scripts. */
final class Browser
{
    /** @var array<string, string> */
    private array $cookies = [];

    public function __construct(private readonly string $url)
    {
    }

    /**
     * @param array<string, string> $headers
     *
     * @return array{status: int, headers: array<string, string>, body: string}
     */
    public function get(string $path, array $headers = []): array
    {
        return $this->finish($this->open('GET', $path, $headers));
    }

    /**
     * Sends a form like a browser that shows a page of this application.
     *
     * @param array<string, string>  $fields
     * @param array<string, ?string> $headers other headers; null for no such header
     *
     * @return array{status: int, headers: array<string, string>, body: string}
     */
    public function post(string $path, array $fields, array $headers = []): array
    {
        $headers += ['Origin' => $this->origin(), 'Sec-Fetch-Site' => 'same-origin', 'Content-Type' => 'application/x-www-form-urlencoded'];
        return $this->finish($this->open('POST', $path, array_filter($headers, is_string(...)), http_build_query($fields)));
    }

    /** Returns the console's token, which every form of a page contains. */
    public function csrf(string $path): string
    {
        $page = $this->get($path);
        if (preg_match('/name="csrf" value="([^"]+)"/', $page['body'], $found) !== 1) {
            throw new RuntimeException("$path has no form: {$page['status']} {$page['body']}");
        }
        return $found[1];
    }

    /**
     * Sends a request and waits for the response headers.
     *
     * @param array<string, string> $headers
     *
     * @return resource the body of the response
     */
    public function open(string $method, string $path, array $headers = [], string $body = '')
    {
        $lines = [];
        foreach ($headers as $name => $value) {
            $lines[] = "$name: $value";
        }
        if ($this->cookies !== []) {
            $lines[] = 'Cookie: ' . implode('; ', array_map(static fn (string $name, string $value) => "$name=$value", array_keys($this->cookies), $this->cookies));
        }
        $options = ['method' => $method, 'header' => $lines, 'content' => $body, 'ignore_errors' => true, 'follow_location' => 0, 'timeout' => 60];
        $stream = fopen($this->url . $path, 'r', false, stream_context_create(['http' => $options]));
        if ($stream === false) {
            throw new RuntimeException("$method $path: no response");
        }
        foreach (self::headerLines($stream) as [$name, $value]) {
            if ($name === 'set-cookie' && preg_match('/^([^=]+)=([^;]*)/', $value, $cookie) === 1) {
                $this->cookies[$cookie[1]] = $cookie[2];
            }
        }
        return $stream;
    }

    /** @return list<string> */
    public function cookieNames(): array
    {
        return array_keys($this->cookies);
    }

    private function origin(): string
    {
        return (string) preg_replace('#^(\w+://[^/]+).*#', '$1', $this->url);
    }

    /**
     * Reads the response of {@see open()}.
     *
     * @param resource $stream
     *
     * @return array{status: int, headers: array<string, string>, body: string}
     */
    public function finish($stream): array
    {
        $lines = stream_get_meta_data($stream)['wrapper_data'];
        $headers = array_column(self::headerLines($stream), 1, 0);
        $body = (string) stream_get_contents($stream);
        fclose($stream);
        return ['status' => (int) explode(' ', $lines[0])[1], 'headers' => $headers, 'body' => $body];
    }

    /**
     * @param resource $stream
     *
     * @return list<array{string, string}> the names in lower case and the values
     */
    private static function headerLines($stream): array
    {
        $headers = [];
        foreach (array_slice(stream_get_meta_data($stream)['wrapper_data'], 1) as $line) {
            [$name, $value] = explode(':', $line, 2) + [1 => ''];
            $headers[] = [strtolower($name), trim($value)];
        }
        return $headers;
    }
}
