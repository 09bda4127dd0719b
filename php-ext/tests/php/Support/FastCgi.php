<?php

declare(strict_types=1);

namespace Pillion\Tests\Support;

/**
 * A FastCGI client with several concurrent connections in one process: a program started for each
 * request (`cgi-fcgi`) takes longer than the request.
 *
 * With `keepAlive`, a connection serves sequential requests, and FPM assigns it a worker: there
 * must not be more connections than workers. Without `keepAlive`, each request has its own
 * connection, like with most web servers.
 */
final class FastCgi
{
    private const BEGIN = 1;
    private const END = 3;
    private const PARAMETERS = 4;
    private const STDIN = 5;
    private const STDOUT = 6;
    private const RESPONDER = 1;
    private const KEEP = 1;
    /** Seconds without a response after which the test fails. */
    private const ANSWER_TIMEOUT = 30;

    /** @var array<int, array{stream: resource, request: int, input: string, output: string, reused: bool}> */
    private array $busy = [];

    /** @var list<resource> open connections without a request */
    private array $idle = [];

    /** Requests that were repeated on another connection because FPM had closed a reused one. */
    public int $repeated = 0;

    public function __construct(
        private readonly string $socket,
        private readonly int $connections = 1,
        private readonly bool $keepAlive = false,
    ) {
    }

    /**
     * Sends requests `$from` to `$to - 1`, and passes the number and body of each response to
     * `$answered` as it arrives. Throws if a response is incomplete.
     *
     * @param callable(int): array<string, string> $query
     * @param callable(int, string): void          $answered
     */
    public function run(string $script, int $from, int $to, callable $query, callable $answered): void
    {
        $next = $from;
        while ($next < $to || $this->busy !== []) {
            for (; $next < $to && count($this->busy) < $this->connections; $next++) {
                $this->send($next, $this->request($script, $query($next)));
            }
            $streams = array_column($this->busy, 'stream');
            $none = [];
            if (!stream_select($streams, $none, $none, self::ANSWER_TIMEOUT)) {
                throw new \RuntimeException('No answer to request ' . implode(', ', array_column($this->busy, 'request')));
            }
            foreach ($streams as $stream) {
                $this->receive((int) $stream, $answered);
            }
        }
    }

    public function close(): void
    {
        array_map('fclose', $this->idle);
        $this->idle = [];
    }

    private function send(int $number, string $input): void
    {
        $stream = array_pop($this->idle);
        $reused = $stream !== null;
        $stream ??= stream_socket_client("unix://$this->socket", $code, $message, self::ANSWER_TIMEOUT);
        if ($stream === false) {
            throw new \RuntimeException("FPM takes no connection: $message");
        }
        $this->busy[(int) $stream] = ['stream' => $stream, 'request' => $number, 'input' => $input, 'output' => '', 'reused' => $reused];
        // A failed write to a closed connection is noticed when it is read.
        @fwrite($stream, $input);
    }

    /** @param callable(int, string): void $answered */
    private function receive(int $key, callable $answered): void
    {
        ['stream' => $stream, 'request' => $number, 'input' => $input] = $this->busy[$key];
        $bytes = @fread($stream, 65536);
        if ($bytes === '' || $bytes === false) {
            $before = $this->busy[$key];
            unset($this->busy[$key]);
            fclose($stream);
            if (!$before['reused'] || $before['output'] !== '') {
                throw new \RuntimeException("Request $number: the connection ended before the answer did");
            }
            $this->repeated++;
            $this->close();
            $this->send($number, $input);
            return;
        }
        $this->busy[$key]['output'] .= $bytes;
        $body = self::body($this->busy[$key]['output']);
        if ($body === null) {
            return;
        }
        unset($this->busy[$key]);
        if ($this->keepAlive) {
            $this->idle[] = $stream;
        } else {
            fclose($stream);
        }
        $answered($number, explode("\r\n\r\n", $body, 2)[1] ?? $body);
    }

    /** Returns the script's output with headers; null while it is incomplete. */
    private static function body(string $records): ?string
    {
        $body = '';
        for ($at = 0; strlen($records) - $at >= 8;) {
            $header = unpack('Cversion/Ctype/nid/nlength/Cpadding', $records, $at);
            $end = $at + 8 + $header['length'];
            if ($header['type'] === self::END && strlen($records) >= $end) {
                return $body;
            }
            if ($header['type'] === self::STDOUT) {
                $body .= substr($records, $at + 8, $header['length']);
            }
            $at = $end + $header['padding'];
        }
        return null;
    }

    /** @param array<string, string> $query */
    private function request(string $script, array $query): string
    {
        $parameters = '';
        $all = [
            'SCRIPT_FILENAME' => $script, 'REQUEST_METHOD' => 'GET', 'QUERY_STRING' => http_build_query($query),
            'SCRIPT_NAME' => '/request.php', 'SERVER_PROTOCOL' => 'HTTP/1.1', 'GATEWAY_INTERFACE' => 'CGI/1.1',
        ];
        foreach ($all as $name => $value) {
            // The high bit marks a length of four bytes; one byte is enough up to 127.
            $parameters .= pack('CN', strlen($name), strlen($value) | 0x80000000) . $name . $value;
        }
        return self::record(self::BEGIN, pack('nCx5', self::RESPONDER, $this->keepAlive ? self::KEEP : 0))
            . self::record(self::PARAMETERS, $parameters) . self::record(self::PARAMETERS, '')
            . self::record(self::STDIN, '');
    }

    private static function record(int $type, string $content): string
    {
        return pack('CCnnCx', 1, $type, 1, strlen($content), 0) . $content;
    }
}
