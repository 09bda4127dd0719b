<?php

declare(strict_types=1);

namespace Pillion\Worker;

use Pillion\Exception\TransportException;
use Pillion\Fallback\Failure;
use Pillion\Fallback\Http\Deadline;

/**
 * Sends and receives lines of JSON over a Unix socket. No operation takes longer than its timeout, however slowly
 * the sidecar reads or writes.
 *
 * @internal
 */
final class Connection
{
    /** Maximum length of a line in bytes, in both directions; the sidecar's default limit. */
    public const MAX_LINE_LEN = 16 * 1024 * 1024;

    private const CONNECT_TIMEOUT = 5.0;
    /** Default timeout of a send, in seconds. */
    private const SEND_TIMEOUT = 30.0;
    private const BLOCK_BYTES = 262_144;
    private const DEPTH = 512;
    /** The errno of a denied permission. */
    private const EACCES = 13;

    /** @var resource */
    private $stream;
    private string $buffer = '';
    /** Number of bytes in the buffer that were already searched for the end of a line. */
    private int $searched = 0;
    private readonly int $ownerPid;

    /** @throws ConnectionLostException when the connection fails */
    public function __construct(string $socket)
    {
        $stream = @stream_socket_client("unix://$socket", $code, $reason, self::CONNECT_TIMEOUT);
        if ($stream === false) {
            throw new ConnectionLostException($code === self::EACCES
                ? "Permission denied for the sidecar's socket $socket: only the user of the sidecar, root and the members of "
                    . 'the group that socket.group of its configuration names may connect'
                : "Cannot connect to the sidecar at $socket: " . ($reason === '' ? 'the path is not valid' : $reason), $code);
        }
        stream_set_blocking($stream, false);
        stream_set_read_buffer($stream, 0);
        $this->stream = $stream;
        $this->ownerPid = (int) getmypid();
    }

    /** Returns whether this process is a fork of the process that owns the connection. */
    public function isInherited(): bool
    {
        return getmypid() !== $this->ownerPid;
    }

    /**
     * @throws ConnectionLostException when the connection is lost, or the sidecar does not read
     */
    public function send(string $bytes, float $seconds = self::SEND_TIMEOUT): void
    {
        $length = strlen($bytes);
        $end = Deadline::now() + $seconds;
        for ($sent = 0; $sent < $length;) {
            $written = @fwrite($this->stream, substr($bytes, $sent, self::BLOCK_BYTES));
            if ($written === false || feof($this->stream)) {
                throw new ConnectionLostException('The sidecar closed the connection');
            }
            $sent += $written;
            $isBlocked = $written === 0 && !$this->waitUntilReady(max(0.0, $end - Deadline::now()), forWriting: true);
            if ($isBlocked || ($sent < $length && Deadline::now() >= $end)) {
                throw new ConnectionLostException('The sidecar stopped reading messages');
            }
        }
    }

    /**
     * Returns the next line without its line ending; null after a timeout or a signal.
     *
     * @throws ConnectionLostException when the connection is lost
     * @throws TransportException      when the line is too long
     */
    public function readLine(float $seconds, int $maxLength = self::MAX_LINE_LEN): ?string
    {
        return $this->readUntil("\n", $seconds, $maxLength);
    }

    /**
     * Returns the bytes before the next `$end`; null after a timeout.
     *
     * @throws ConnectionLostException
     * @throws TransportException
     */
    public function readUntil(string $end, float $seconds, int $maxLength): ?string
    {
        $deadline = Deadline::now() + $seconds;
        while (true) {
            $position = strpos($this->buffer, $end, max(0, $this->searched - strlen($end)));
            if (($position === false ? strlen($this->buffer) : $position) > $maxLength) {
                throw Failure::transport("The sidecar sent a message of more than $maxLength bytes");
            }
            if ($position !== false) {
                $found = substr($this->buffer, 0, $position);
                $this->buffer = substr($this->buffer, $position + strlen($end));
                $this->searched = 0;
                return $found;
            }
            $this->searched = strlen($this->buffer);
            // Even with a timeout of zero, the bytes that have arrived are read.
            $remaining = $deadline - Deadline::now();
            if (($remaining <= 0 && $seconds > 0) || !$this->receive(max(0.0, $remaining))) {
                return null;
            }
        }
    }

    /**
     * Returns exactly `$count` bytes; null after a timeout.
     *
     * @throws ConnectionLostException
     */
    public function readBytes(int $count, float $seconds): ?string
    {
        $deadline = Deadline::now() + $seconds;
        while (strlen($this->buffer) < $count) {
            $remaining = $deadline - Deadline::now();
            if ($remaining <= 0 || !$this->receive($remaining)) {
                return null;
            }
        }
        $found = substr($this->buffer, 0, $count);
        $this->buffer = substr($this->buffer, $count);
        $this->searched = 0;
        return $found;
    }

    /**
     * Decodes a JSON-RPC message; as an array if the name of a member begins with U+0000, which the name of an object's
     * property must not.
     *
     * @return \stdClass|array<array-key, mixed>
     *
     * @throws TransportException when the message is invalid
     */
    public static function decode(string $line): \stdClass|array
    {
        $message = json_decode($line, false, self::DEPTH);
        if ($message instanceof \stdClass) {
            return $message;
        }
        if (json_last_error() === JSON_ERROR_INVALID_PROPERTY_NAME) {
            return (array) json_decode($line, true, self::DEPTH);
        }
        $reason = json_last_error() === JSON_ERROR_NONE ? 'it is not an object' : json_last_error_msg();
        throw Failure::transport("The sidecar sent an invalid JSON-RPC message: $reason");
    }

    /**
     * Closes the connection for all processes, including child processes that inherited the
     * socket.
     */
    public function close(): void
    {
        if (is_resource($this->stream) && !$this->isInherited()) {
            @stream_socket_shutdown($this->stream, STREAM_SHUT_RDWR);
            fclose($this->stream);
        }
    }

    /** @throws ConnectionLostException */
    private function receive(float $seconds): bool
    {
        if (!$this->waitUntilReady($seconds, forWriting: false)) {
            return false;
        }
        $bytes = @fread($this->stream, self::BLOCK_BYTES);
        if (($bytes === false || $bytes === '') && feof($this->stream)) {
            throw new ConnectionLostException('The sidecar closed the connection');
        }
        $this->buffer .= (string) $bytes;
        return true;
    }

    private function waitUntilReady(float $seconds, bool $forWriting): bool
    {
        if (!is_resource($this->stream)) {
            throw new ConnectionLostException('The connection is closed');
        }
        $read = $forWriting ? [] : [$this->stream];
        $write = $forWriting ? [$this->stream] : [];
        $except = [];
        $whole = (int) $seconds;
        // A signal interrupts `stream_select()` with a warning.
        $ready = @stream_select($read, $write, $except, $whole, (int) (($seconds - $whole) * 1e6));
        return $ready === false ? $forWriting : $ready > 0;
    }
}
