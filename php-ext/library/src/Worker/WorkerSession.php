<?php

declare(strict_types=1);

namespace Pillion\Worker;

use Pillion\Exception\TransportException;
use Pillion\Fallback\Failure;
use Pillion\Fallback\Http\Deadline;
use Pillion\Progress;
use Pillion\ToolResult;

/**
 * A worker's connection after the handshake. The connection carries JSON-RPC 2.0 messages, one per
 * line. The sidecar sends one call at a time.
 *
 * @internal
 */
final class WorkerSession
{
    /** Maximum time between two checks of the limits of {@see RunLimits}, in seconds. */
    private const CHECK_INTERVAL = 1.0;
    /**
     * Maximum time in seconds that a worker, before it leaves, waits for the sidecar's
     * confirmation.
     */
    private const LEAVE_TIMEOUT = 5.0;
    /**
     * The ID of the final ping. After the response to the final ping, the sidecar sends no more
     * calls.
     */
    private const FINAL_PING_ID = 'last';
    private const MAX_DEPTH = 512;
    /**
     * Maximum number of messages that may arrive during a call. The sidecar sends one call at a
     * time, so more messages are an error.
     */
    private const MAX_DEFERRED_MESSAGES = 100;

    private ?Call $call = null;
    private int|string $requestId = 0;
    /** @var list<\stdClass> messages that arrived during a call */
    private array $deferredMessages = [];
    private ?TransportException $connectionError = null;
    /**
     * The time at which the worker leaves even without the sidecar's confirmation; null while the
     * worker accepts calls.
     */
    private ?float $leaveDeadline = null;

    /** @param \Closure(Call, string): ?ToolResult $runCall runs a call with its arguments as JSON; returns null for an unknown tool */
    public function __construct(
        private readonly Connection $connection,
        private readonly RunLimits $limits,
        private readonly \Closure $runCall,
    ) {
    }

    /**
     * Serves calls until a limit of {@see RunLimits} is reached.
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
                $message = array_shift($this->deferredMessages) ?? $this->nextMessage($this->limits->limitWait(self::CHECK_INTERVAL));
                if ($message !== null && $this->handleMessage($message)) {
                    return;
                }
            } catch (ConnectionLostException $exception) {
                if ($this->leaveDeadline !== null) {
                    return;
                }
                throw $exception;
            }
        }
    }

    /** Reads the messages that the sidecar sent during a call, without waiting. */
    public function readPendingMessages(): void
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
                    $this->handleMessage($message);
                } else {
                    $this->deferredMessages[] = $message;
                    if (count($this->deferredMessages) > self::MAX_DEFERRED_MESSAGES) {
                        throw Failure::transport('The sidecar sent more than ' . self::MAX_DEFERRED_MESSAGES . ' messages during a call');
                    }
                }
            }
        } catch (TransportException $exception) {
            // The error is stored and not thrown: the tool may continue, although the worker can no
            // longer deliver the tool's result.
            $this->connectionError = $exception;
            $this->call?->cancel($exception->getMessage());
        }
    }

    public function reportProgress(Progress $progress): void
    {
        $this->readPendingMessages();
        if ($this->connectionError !== null || $this->call === null || $this->connection->isInherited()) {
            return;
        }
        $params = ['progressToken' => $this->requestId, 'progress' => $progress->progress];
        $params += array_filter(['total' => $progress->total, 'message' => $progress->message], static fn (mixed $value): bool => $value !== null);
        try {
            $this->connection->send(MessageEncoder::encode(['method' => 'notifications/progress', 'params' => $params]));
        } catch (ConnectionLostException $exception) {
            $this->connectionError = $exception;
            $this->call->cancel($exception->getMessage());
        }
    }

    /** Handles a message. Returns whether the message was the last message of the connection. */
    private function handleMessage(\stdClass $message): bool
    {
        $method = $message->method ?? null;
        $id = $message->id ?? null;
        if ($method === null) {
            return $id === self::FINAL_PING_ID;
        }
        if ($method === 'tools/call') {
            $this->handleCall($id, $message->params ?? null);
        } elseif ($id !== null) {
            $response = $method === 'ping'
                ? ['result' => new \stdClass()]
                : ['error' => ['code' => -32601, 'message' => 'Method not found']];
            $this->connection->send(MessageEncoder::encode(['id' => $id] + $response));
        }
        return false;
    }

    private function handleCall(mixed $id, mixed $params): void
    {
        $name = $params->name ?? null;
        $arguments = $params->arguments ?? new \stdClass();
        if (!(is_int($id) || is_string($id)) || !is_string($name) || !($arguments instanceof \stdClass)) {
            throw Failure::transport('The sidecar sent a call without an id, a name, or an object of arguments');
        }
        $metadata = $params->_meta->pillion ?? null;
        $readText = static fn (string $key): ?string => is_string($metadata->$key ?? null) ? $metadata->$key : null;
        $milliseconds = $metadata->deadlineMs ?? null;
        $endTime = is_int($milliseconds) || is_float($milliseconds) ? Deadline::now() + $milliseconds / 1000 : null;
        $call = new Call(
            id: $readText('callId') ?? (string) $id,
            tool: $name,
            user: $readText('user'),
            claimedUser: $readText('claimedUser'),
            principal: $readText('principal'),
            channel: $readText('channel'),
            endTime: $endTime,
            session: $this,
        );

        $this->call = $call;
        $this->requestId = $id;
        $result = ($this->runCall)($call, json_encode($arguments, JSON_THROW_ON_ERROR | JSON_PRESERVE_ZERO_FRACTION, self::MAX_DEPTH));
        $this->call = null;
        if ($this->connection->isInherited()) {
            // A child process that the tool forked ends here, because only the parent process sends
            // the response.
            exit(0);
        }
        $this->limits->callCount++;
        if ($this->connectionError !== null) {
            throw $this->connectionError;
        }
        // The worker announces that it is about to leave before it sends the response, because the
        // sidecar may send another call immediately after the response.
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
     * Announces that the worker takes no more calls. A call that the sidecar has already sent
     * arrives before the response to the ping, and still runs.
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
        if (($params->requestId ?? null) === $this->requestId) {
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
        // A message that was decoded to an array contains member names that begin with U+0000,
        // which the caller of a tool has sent. The call is rejected.
        $error = ['code' => -32602, 'message' => 'Names in the arguments must not begin with the character U+0000'];
        $this->connection->send(MessageEncoder::encode(['id' => $message['id'] ?? null, 'error' => $error]));
        return null;
    }
}
