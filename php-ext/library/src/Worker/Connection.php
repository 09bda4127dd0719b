<?php

declare(strict_types=1);

namespace Pillion\Worker;

use Pillion\Exception\TransportException;
use Pillion\Fallback\Failure;

/**
 * Lines of JSON over a Unix socket, in both directions, without waiting longer than is said.
 *
 * @internal
 */
final class Connection
{
    /** The longest line, in bytes, either way: what the sidecar takes, unless it is told otherwise. */
    public const LONGEST_LINE = 16 * 1024 * 1024;

    private const CONNECT_SECONDS = 5.0;
    /** How long the sidecar may read nothing of what is sent. */
    private const SEND_SECONDS = 30.0;
    private const BLOCK = 262_144;
    /** What the system says to whom it does not let in. */
    private const EACCES = 13;

    /** @var resource */
    private $stream;
    private string $buffer = '';
    /** How much of the buffer holds no end of a line. */
    private int $seen = 0;
    private readonly int $process;

    /** @throws Lost when nobody listens */
    public function __construct(string $socket)
    {
        $stream = @stream_socket_client("unix://$socket", $code, $reason, self::CONNECT_SECONDS);
        if ($stream === false) {
            throw new Lost($code === self::EACCES
                ? "Permission denied: the permissions of the sidecar's socket $socket let in its user and root, "
                    . 'and with socket.group of its configuration that group\'s members'
                : "No sidecar at $socket: " . ($reason === '' ? 'the path cannot be used' : $reason));
        }
        stream_set_blocking($stream, false);
        stream_set_read_buffer($stream, 0);
        $this->stream = $stream;
        $this->process = (int) getmypid();
    }

    /** Whether this is a child that a tool has forked: the connection is its parent's. */
    public function isInherited(): bool
    {
        return getmypid() !== $this->process;
    }

    /**
     * @throws Lost when the sidecar is gone, or does not read
     */
    public function send(string $bytes): void
    {
        $length = strlen($bytes);
        for ($sent = 0; $sent < $length;) {
            $written = @fwrite($this->stream, substr($bytes, $sent, self::BLOCK));
            if ($written === false || feof($this->stream)) {
                throw new Lost('The sidecar has closed the connection');
            }
            $sent += $written;
            if ($written === 0 && !$this->ready(self::SEND_SECONDS, forWriting: true)) {
                throw new Lost('The sidecar does not read what it is sent');
            }
        }
    }

    /**
     * The next line, without its end; null when none came in time or a signal did.
     *
     * @throws Lost               when the sidecar is gone
     * @throws TransportException when the line is too long
     */
    public function line(float $seconds): ?string
    {
        return $this->next("\n", $seconds, self::LONGEST_LINE);
    }

    /**
     * What comes before the next `$end`.
     *
     * @throws Lost
     * @throws TransportException
     */
    public function next(string $end, float $seconds, int $longest): ?string
    {
        while (true) {
            $place = strpos($this->buffer, $end, max(0, $this->seen - strlen($end)));
            if (($place === false ? strlen($this->buffer) : $place) > $longest) {
                throw Failure::transport("The sidecar sent more than $longest bytes in one piece");
            }
            if ($place !== false) {
                $found = substr($this->buffer, 0, $place);
                $this->buffer = substr($this->buffer, $place + strlen($end));
                $this->seen = 0;
                return $found;
            }
            $this->seen = strlen($this->buffer);
            if (!$this->more($seconds)) {
                return null;
            }
        }
    }

    /**
     * So many bytes; null when they did not come in time.
     *
     * @throws Lost
     */
    public function bytes(int $count, float $seconds): ?string
    {
        while (strlen($this->buffer) < $count) {
            if (!$this->more($seconds)) {
                return null;
            }
        }
        $found = substr($this->buffer, 0, $count);
        $this->buffer = substr($this->buffer, $count);
        $this->seen = 0;
        return $found;
    }

    /** Also for programs that tools have started and left behind, which have the socket too. */
    public function close(): void
    {
        if (is_resource($this->stream) && !$this->isInherited()) {
            @stream_socket_shutdown($this->stream, STREAM_SHUT_RDWR);
            fclose($this->stream);
        }
    }

    /** @throws Lost */
    private function more(float $seconds): bool
    {
        if (!$this->ready($seconds, forWriting: false)) {
            return false;
        }
        $bytes = @fread($this->stream, self::BLOCK);
        if (($bytes === false || $bytes === '') && feof($this->stream)) {
            throw new Lost('The sidecar has closed the connection');
        }
        $this->buffer .= (string) $bytes;
        return true;
    }

    private function ready(float $seconds, bool $forWriting): bool
    {
        if (!is_resource($this->stream)) {
            throw new Lost('The connection is closed');
        }
        $read = $forWriting ? [] : [$this->stream];
        $write = $forWriting ? [$this->stream] : [];
        $except = [];
        $whole = (int) $seconds;
        // A signal ends the wait, with a warning.
        $ready = @stream_select($read, $write, $except, $whole, (int) (($seconds - $whole) * 1e6));
        return $ready === false ? $forWriting : $ready > 0;
    }
}
