<?php

declare(strict_types=1);

namespace Pillion\Worker;

use Pillion\Exception\TransportException;
use Pillion\Fallback\Failure;
use Pillion\Fallback\Http\Deadline;
use Pillion\Progress;
use Pillion\ToolResult;

/**
 * A worker's connection after the handshake: JSON-RPC 2.0 messages, one per line, and one call at a time.
 *
 * @internal
 */
final class WorkerSession
{
    /** Maximum time between two checks of the limits, in seconds. */
    private const CHECK_INTERVAL = 1.0;
    /** How long the worker waits for the sidecar to confirm that it is leaving, in seconds. */
    private const LEAVE_TIMEOUT = 5.0;
    /** The ID of the final ping: after its response, the sidecar sends no more calls. */
    private const FINAL_PING_ID = 'last';
    private const DEPTH = 512;
    /** Maximum number of messages that wait for the end of a call: the sidecar sends one call at a time. */
    private const MAX_DEFERRED = 100;

    private ?Call $call = null;
    private int|string $request = 0;
    /** @var list<\stdClass> messages that arrived during a call */
    private array $deferred = [];
    private ?TransportException $connectionError = null;
    private ?float $leaveDeadline = null;

    /** @param \Closure(Call, string): ?ToolResult $run runs a call with its arguments as JSON; returns null for an unknown tool */
    public function __construct(
        private readonly Connection $connection,
        private readonly RunLimits $limits,
        private readonly \Closure $run,
    ) {
    }

    /**
     * Serves calls until a limit is reached.
     *
     * @throws ConnectionLostException when the connection is lost before a limit is reached
     * @throws TransportException      when the sidecar sends an invalid message
     */
    public function serve(): void
    {
        while ($this->leaveDeadline === null || Deadline::now() < $this->leaveDeadline) {
            try {
                if ($this->leaveDeadline === null && $this->limits->reachedLimit() !== null) {
                    $this->leave();
                }
                $message = array_shift($this->deferred) ?? $this->nextMessage($this->limits->cappedWait(self::CHECK_INTERVAL));
                if ($message !== null && $this->handle($message)) {
                    return;
                }
            } catch (ConnectionLostException $lost) {
                if ($this->leaveDeadline !== null) {
                    return;
                }
                throw $lost;
            }
        }
    }

    /** Reads the messages that the sidecar sent during a call, without waiting. */
    public function readPending(): void
    {
        try {
            while ($this->connectionError === null && !$this->connection->isInherited()) {
                $message = $this->nextMessage(0.0);
                if ($message === null) {
                    return;
                }
                if (($message->method ?? null) === 'notifications/cancelled') {
                    $this->handleCancellation($message->params ?? null);
                } elseif (($message->method ?? null) === 'ping') {
                    $this->handle($message);
                } else {
                    $this->deferred[] = $message;
                    if (count($this->deferred) > self::MAX_DEFERRED) {
                        throw Failure::transport('The sidecar sent more than ' . self::MAX_DEFERRED . ' messages during a call');
                    }
                }
            }
        } catch (TransportException $e) {
            // The tool may continue, but its result can no longer be delivered.
            $this->connectionError = $e;
            $this->call?->cancel($e->getMessage());
        }
    }

    public function reportProgress(Progress $progress): void
    {
        $this->readPending();
        if ($this->connectionError !== null || $this->call === null || $this->connection->isInherited()) {
            return;
        }
        $params = ['progressToken' => $this->request, 'progress' => $progress->progress];
        $params += array_filter(['total' => $progress->total, 'message' => $progress->message], static fn (mixed $value): bool => $value !== null);
        try {
            $this->connection->send(MessageEncoder::encode(['method' => 'notifications/progress', 'params' => $params]));
        } catch (ConnectionLostException $e) {
            $this->connectionError = $e;
            $this->call->cancel($e->getMessage());
        }
    }

    /** Handles a message. Returns whether it was the last one. */
    private function handle(\stdClass $message): bool
    {
        $method = $message->method ?? null;
        $id = $message->id ?? null;
        if ($method === null) {
            return $id === self::FINAL_PING_ID;
        }
        if ($method === 'tools/call') {
            $this->call($id, $message->params ?? null);
        } elseif ($id !== null) {
            $answer = $method === 'ping'
                ? ['result' => new \stdClass()]
                : ['error' => ['code' => -32601, 'message' => 'Method not found']];
            $this->connection->send(MessageEncoder::encode(['id' => $id] + $answer));
        }
        return false;
    }

    private function call(mixed $id, mixed $params): void
    {
        $name = $params->name ?? null;
        $arguments = $params->arguments ?? new \stdClass();
        if (!(is_int($id) || is_string($id)) || !is_string($name) || !($arguments instanceof \stdClass)) {
            throw Failure::transport('The sidecar sent a call without an id, a name, or a map of arguments');
        }
        $metadata = $params->_meta->pillion ?? null;
        $text = static fn (string $key): ?string => is_string($metadata->$key ?? null) ? $metadata->$key : null;
        $milliseconds = $metadata->deadlineMs ?? null;
        $end = is_int($milliseconds) || is_float($milliseconds) ? Deadline::now() + $milliseconds / 1000 : null;
        $call = new Call(
            id: $text('callId') ?? (string) $id,
            tool: $name,
            user: $text('user'),
            claimedUser: $text('claimedUser'),
            principal: $text('principal'),
            channel: $text('channel'),
            end: $end,
            session: $this,
        );

        $this->call = $call;
        $this->request = $id;
        $result = ($this->run)($call, json_encode($arguments, JSON_THROW_ON_ERROR | JSON_PRESERVE_ZERO_FRACTION, self::DEPTH));
        $this->call = null;
        if ($this->connection->isInherited()) {
            // This is a child process that the tool forked: only the parent process sends the
            // response.
            exit(0);
        }
        $this->limits->calls++;
        if ($this->connectionError !== null) {
            throw $this->connectionError;
        }
        // The worker leaves before it sends the response, because after the response the sidecar
        // may send another call at once.
        if ($this->leaveDeadline === null && $this->limits->reachedLimit() !== null) {
            $this->leave();
        }
        $this->connection->send($result === null
            ? MessageEncoder::encode(['id' => $id, 'error' => ['code' => -32602, 'message' => "Unknown tool: $name"]])
            : MessageEncoder::encodeResult($id, $name, $result));
        if ($this->leaveDeadline !== null) {
            $this->leaveDeadline = Deadline::now() + self::LEAVE_TIMEOUT;
        }
    }

    /**
     * Announces that the worker takes no more calls. A call already sent arrives before the ping's response
     * and still runs.
     */
    private function leave(): void
    {
        $this->leaveDeadline = Deadline::now() + self::LEAVE_TIMEOUT;
        $this->connection->send(
            MessageEncoder::encode(['method' => 'worker/draining']) . MessageEncoder::encode(['id' => self::FINAL_PING_ID, 'method' => 'ping'])
        );
    }

    private function handleCancellation(mixed $params): void
    {
        if (($params->requestId ?? null) === $this->request) {
            $reason = $params->reason ?? null;
            $this->call?->cancel(is_string($reason) ? $reason : null);
        }
    }

    /**
     * Returns the next message; null after a timeout.
     *
     * @throws ConnectionLostException
     * @throws TransportException when the message is invalid
     */
    private function nextMessage(float $seconds): ?\stdClass
    {
        $line = $this->connection->readLine($seconds);
        if ($line === null) {
            return null;
        }
        $message = Connection::decode($line);
        if ($message instanceof \stdClass) {
            return $message;
        }
        // The caller of a tool may have sent names that begin with U+0000.
        $error = ['code' => -32602, 'message' => 'Names in the arguments must not begin with the character U+0000'];
        $this->connection->send(MessageEncoder::encode(['id' => $message['id'] ?? null, 'error' => $error]));
        return null;
    }
}
