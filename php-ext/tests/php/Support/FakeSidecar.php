<?php

declare(strict_types=1);

namespace Pillion\Tests\Support;

/** The sidecar's side of a worker's connection, for behavior that a real sidecar cannot be made to show. */
final class FakeSidecar
{
    private const SECONDS = 30;

    public readonly string $socket;
    public string $request = '';
    private readonly string $folder;

    /** @var resource */
    private $server;

    /** @var ?resource */
    private $worker = null;

    public function __construct()
    {
        $this->folder = sys_get_temp_dir() . '/pillion-' . bin2hex(random_bytes(6));
        mkdir($this->folder, 0700);
        $this->socket = "$this->folder/pillion.sock";
        $this->listen();
    }

    public function listen(): void
    {
        $server = stream_socket_server("unix://$this->socket");
        if ($server === false) {
            throw new \RuntimeException('The fake sidecar cannot listen');
        }
        $this->server = $server;
    }

    /** Closes the connection like a stopping sidecar. */
    public function stop(): void
    {
        $this->disconnect();
        if (is_resource($this->server)) {
            fclose($this->server);
            unlink($this->socket);
        }
    }

    public function disconnect(): void
    {
        if ($this->worker !== null) {
            fclose($this->worker);
            $this->worker = null;
        }
    }

    /**
     * Accepts a worker, or rejects it.
     *
     * @return array<string, mixed> what it offers
     */
    public function accept(string $answer = "HTTP/1.1 101 Switching Protocols\r\nConnection: upgrade\r\nUpgrade: pillion-worker\r\nPillion-Worker: 7\r\n\r\n"): array
    {
        $worker = stream_socket_accept($this->server, self::SECONDS);
        if ($worker === false) {
            throw new \RuntimeException('No worker came');
        }
        stream_set_timeout($worker, self::SECONDS);
        $this->worker = $worker;
        $this->request = '';
        while (!str_ends_with($this->request, "\r\n\r\n")) {
            $this->request .= (string) fgets($worker);
        }
        preg_match('/Content-Length: (\d+)/', $this->request, $found);
        $offer = json_decode((string) stream_get_contents($worker, (int) $found[1]), true, flags: JSON_THROW_ON_ERROR);
        fwrite($worker, $answer);
        return $offer;
    }

    public function sendLine(string $line): void
    {
        fwrite($this->worker, "$line\n");
    }

    /** @param array<string, mixed> $params */
    public function send(string $method, array $params, int|string|null $id = null): void
    {
        $this->sendLine((string) json_encode(['jsonrpc' => '2.0', 'method' => $method, 'params' => $params] + ($id === null ? [] : ['id' => $id])));
    }

    /**
     * @param array<string, mixed> $arguments
     * @param array<string, mixed> $about
     */
    public function sendCall(int $id, string $tool, array $arguments = [], array $about = []): void
    {
        // The sidecar fills in defaults.
        $arguments += $tool === 'twice' ? ['number' => 21] : [];
        $this->send('tools/call', ['name' => $tool, 'arguments' => (object) $arguments, '_meta' => ['pillion' => $about + ['callId' => "call-$id"]]], $id);
    }

    /** @return ?array<string, mixed> the worker's next message, null if it closed the connection */
    public function receive(): ?array
    {
        $line = fgets($this->worker);
        return $line === false ? null : json_decode($line, true, flags: JSON_THROW_ON_ERROR);
    }

    /** Returns the next raw line. */
    public function receiveLine(): string
    {
        return (string) fgets($this->worker);
    }

    /**
     * @param array<string, mixed> $arguments
     *
     * @return array<string, mixed> the result
     */
    public function call(string $tool, array $arguments = []): array
    {
        static $id = 0;
        $this->sendCall(++$id, $tool, $arguments);
        $answer = $this->receive();
        if (($answer['id'] ?? null) !== $id) {
            throw new \RuntimeException('No answer to the call: ' . json_encode($answer));
        }
        return $answer['result'] ?? $answer;
    }

    public function __destruct()
    {
        $this->stop();
        @unlink($this->socket);
        rmdir($this->folder);
    }
}
