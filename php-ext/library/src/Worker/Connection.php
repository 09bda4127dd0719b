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
    private const IO_BLOCK_BYTES = 262_144;
    private const MAX_DEPTH = 512;
    /** The error number EACCES: permission denied. */
    private const EACCES = 13;

    /** @var resource */
    private $stream;
    private string $buffer = '';
    /** Number of bytes in the buffer that were already searched for the end of a line. */
    private int $searchedBytes = 0;
    private readonly int $ownerPid;

    /** @throws ConnectionLostException when the connection fails */
    public function __construct(string $socket)
    {
        $stream = @stream_socket_client("unix://$socket", $errorCode, $errorMessage, self::CONNECT_TIMEOUT);
        if ($stream === false) {
            throw new ConnectionLostException($errorCode === self::EACCES
                ? "Permission denied for the sidecar's socket $socket: only the user of the sidecar, root and the members of "
                    . 'the group that socket.group of its configuration names may connect'
                : "Cannot connect to the sidecar at $socket: " . ($errorMessage === '' ? 'the path is not valid' : $errorMessage), $errorCode);
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
        $endTime = Deadline::now() + $seconds;
        for ($sentBytes = 0; $sentBytes < $length;) {
            $writtenBytes = @fwrite($this->stream, substr($bytes, $sentBytes, self::IO_BLOCK_BYTES));
            if ($writtenBytes === false || feof($this->stream)) {
                throw new ConnectionLostException('The sidecar closed the connection');
            }
            $sentBytes += $writtenBytes;
            $isBlocked = $writtenBytes === 0 && !$this->waitUntilReady(max(0.0, $endTime - Deadline::now()), isWriting: true);
            if ($isBlocked || ($sentBytes < $length && Deadline::now() >= $endTime)) {
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
     * Returns the bytes before the next `$delimiter`; null after a timeout.
     *
     * @throws ConnectionLostException
     * @throws TransportException
     */
    public function readUntil(string $delimiter, float $seconds, int $maxLength): ?string
    {
        $endTime = Deadline::now() + $seconds;
        while (true) {
            $position = strpos($this->buffer, $delimiter, max(0, $this->searchedBytes - strlen($delimiter)));
            if (($position === false ? strlen($this->buffer) : $position) > $maxLength) {
                throw Failure::transport("The sidecar sent a message of more than $maxLength bytes");
            }
            if ($position !== false) {
                $bytes = substr($this->buffer, 0, $position);
                $this->buffer = substr($this->buffer, $position + strlen($delimiter));
                $this->searchedBytes = 0;
                return $bytes;
            }
            $this->searchedBytes = strlen($this->buffer);
            // At least one read is made even with a timeout of zero, to get the bytes that have
            // already arrived.
            $remainingSeconds = $endTime - Deadline::now();
            if (($remainingSeconds <= 0 && $seconds > 0) || !$this->receive(max(0.0, $remainingSeconds))) {
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
        $endTime = Deadline::now() + $seconds;
        while (strlen($this->buffer) < $count) {
            $remainingSeconds = $endTime - Deadline::now();
            if ($remainingSeconds <= 0 || !$this->receive($remainingSeconds)) {
                return null;
            }
        }
        $bytes = substr($this->buffer, 0, $count);
        $this->buffer = substr($this->buffer, $count);
        $this->searchedBytes = 0;
        return $bytes;
    }

    /**
     * Decodes a JSON-RPC message. Returns an array if a member's name begins with U+0000, because
     * PHP does not allow such a name for a property of an object.
     *
     * @return \stdClass|array<array-key, mixed>
     *
     * @throws TransportException when the message is invalid
     */
    public static function decode(string $line): \stdClass|array
    {
        $message = json_decode($line, false, self::MAX_DEPTH);
        if ($message instanceof \stdClass) {
            return $message;
        }
        if (json_last_error() === JSON_ERROR_INVALID_PROPERTY_NAME) {
            return (array) json_decode($line, true, self::MAX_DEPTH);
        }
        $reason = json_last_error() === JSON_ERROR_NONE ? 'the message is not an object' : json_last_error_msg();
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
        if (!$this->waitUntilReady($seconds, isWriting: false)) {
            return false;
        }
        $bytes = @fread($this->stream, self::IO_BLOCK_BYTES);
        if (($bytes === false || $bytes === '') && feof($this->stream)) {
            throw new ConnectionLostException('The sidecar closed the connection');
        }
        $this->buffer .= (string) $bytes;
        return true;
    }

    private function waitUntilReady(float $seconds, bool $isWriting): bool
    {
        if (!is_resource($this->stream)) {
            throw new ConnectionLostException('The connection to the sidecar is closed');
        }
        $readStreams = $isWriting ? [] : [$this->stream];
        $writeStreams = $isWriting ? [$this->stream] : [];
        $exceptStreams = [];
        $wholeSeconds = (int) $seconds;
        // Warnings are suppressed, because `stream_select()` emits a warning when a signal
        // interrupts it.
        $readyCount = @stream_select($readStreams, $writeStreams, $exceptStreams, $wholeSeconds, (int) (($seconds - $wholeSeconds) * 1e6));
        return $readyCount === false ? $isWriting : $readyCount > 0;
    }
}
