<?php

declare(strict_types=1);

namespace Pillion\Worker;

use Pillion\Exception\TransportException;
use Pillion\Fallback\Failure;
use Pillion\Progress;
use Pillion\ToolResult;

/**
 * A worker's connection after the handshake: JSON-RPC 2.0 messages, one per line, and one call at a time.
 *
 * @internal
 */
final class Session
{
    /** Maximum time between two checks of the limits, in seconds. */
    private const LOOK = 1.0;
    /** How long the worker waits for the sidecar to confirm that it is leaving, in seconds. */
    private const LEAVE_SECONDS = 5.0;
    /** The ID of the final ping: after its response the sidecar sends no more calls. */
    private const LAST = 'last';
    private const DEPTH = 512;

    private ?Call $call = null;
    private int|string $request = 0;
    /** @var list<\stdClass> messages that arrived during a call */
    private array $kept = [];
    private ?TransportException $broken = null;
    private ?float $leavesBy = null;

    /** @param \Closure(Call, string): ?ToolResult $run runs a call with its arguments as JSON; returns null for an unknown tool */
    public function __construct(
        private readonly Connection $connection,
        private readonly Limits $limits,
        private readonly \Closure $run,
    ) {
    }

    /**
     * Serves calls until a limit is reached.
     *
     * @throws Lost               when the connection is lost before a limit is reached
     * @throws TransportException when the sidecar sends an invalid message
     */
    public function serve(): void
    {
        while ($this->leavesBy === null || Limits::now() < $this->leavesBy) {
            try {
                if ($this->leavesBy === null && $this->limits->reached() !== null) {
                    $this->leave();
                }
                $message = array_shift($this->kept) ?? $this->next($this->limits->wait(self::LOOK));
                if ($message !== null && $this->isLast($message)) {
                    return;
                }
            } catch (Lost $lost) {
                if ($this->leavesBy !== null) {
                    return;
                }
                throw $lost;
            }
        }
    }

    /** Reads the messages that the sidecar sent during a call, without waiting. */
    public function listen(): void
    {
        try {
            while ($this->broken === null && !$this->connection->isInherited()) {
                $message = $this->next(0.0);
                if ($message === null) {
                    return;
                }
                if (($message->method ?? null) === 'notifications/cancelled') {
                    $this->cancelled($message->params ?? null);
                } elseif (($message->method ?? null) === 'ping') {
                    $this->isLast($message);
                } else {
                    $this->kept[] = $message;
                }
            }
        } catch (TransportException $e) {
            // The tool may continue, but its result can no longer be delivered.
            $this->broken = $e;
            $this->call?->cancel($e->getMessage());
        }
    }

    public function tell(Progress $progress): void
    {
        $this->listen();
        if ($this->broken !== null || $this->call === null || $this->connection->isInherited()) {
            return;
        }
        $params = ['progressToken' => $this->request, 'progress' => $progress->progress];
        $params += array_filter(['total' => $progress->total, 'message' => $progress->message], static fn (mixed $of): bool => $of !== null);
        try {
            $this->connection->send(Answer::message(['method' => 'notifications/progress', 'params' => $params]));
        } catch (Lost $e) {
            $this->broken = $e;
            $this->call->cancel($e->getMessage());
        }
    }

    /** Handles a message. Returns whether it was the last one. */
    private function isLast(\stdClass $message): bool
    {
        $method = $message->method ?? null;
        $id = $message->id ?? null;
        if ($method === null) {
            return $id === self::LAST;
        }
        if ($method === 'tools/call') {
            $this->call($id, $message->params ?? null);
        } elseif ($id !== null) {
            $answer = $method === 'ping'
                ? ['result' => new \stdClass()]
                : ['error' => ['code' => -32601, 'message' => 'A worker has no such method']];
            $this->connection->send(Answer::message(['id' => $id] + $answer));
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
        $about = $params->_meta->pillion ?? null;
        $text = static fn (string $key): ?string => is_string($about->$key ?? null) ? $about->$key : null;
        $milliseconds = $about->deadlineMs ?? null;
        $end = is_int($milliseconds) || is_float($milliseconds) ? Limits::now() + $milliseconds / 1000 : null;
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
            // In a child process forked by the tool: the parent process sends the response.
            exit(0);
        }
        $this->limits->calls++;
        if ($this->broken !== null) {
            throw $this->broken;
        }
        // Leave before the response: after the response the sidecar may send another call at once.
        if ($this->leavesBy === null && $this->limits->reached() !== null) {
            $this->leave();
        }
        $this->connection->send($result === null
            ? Answer::message(['id' => $id, 'error' => ['code' => -32602, 'message' => "Unknown tool: $name"]])
            : Answer::line($id, $name, $result));
        if ($this->leavesBy !== null) {
            $this->leavesBy = Limits::now() + self::LEAVE_SECONDS;
        }
    }

    /**
     * Announces that the worker takes no more calls. A call already sent arrives before the ping's response
     * and still runs.
     */
    private function leave(): void
    {
        $this->leavesBy = Limits::now() + self::LEAVE_SECONDS;
        $this->connection->send(
            Answer::message(['method' => 'worker/draining']) . Answer::message(['id' => self::LAST, 'method' => 'ping'])
        );
    }

    private function cancelled(mixed $params): void
    {
        if (($params->requestId ?? null) === $this->request) {
            $reason = $params->reason ?? null;
            $this->call?->cancel(is_string($reason) ? $reason : null);
        }
    }

    /**
     * Returns the next message; null after a timeout.
     *
     * @throws Lost
     * @throws TransportException when the message is invalid
     */
    private function next(float $seconds): ?\stdClass
    {
        $line = $this->connection->line($seconds);
        if ($line === null) {
            return null;
        }
        $message = json_decode($line, false, self::DEPTH);
        if ($message instanceof \stdClass) {
            return $message;
        }
        $why = json_last_error() === JSON_ERROR_NONE ? 'it is no object' : json_last_error_msg();
        if (json_last_error() === JSON_ERROR_INVALID_PROPERTY_NAME) {
            // The line is valid JSON, but PHP objects cannot have a property name that begins with U+0000,
            // which a caller may have sent.
            $id = json_decode($line, true, self::DEPTH)['id'] ?? null;
            $error = ['code' => -32602, 'message' => 'No name in the arguments may begin with the character U+0000'];
            $this->connection->send(Answer::message(['id' => $id, 'error' => $error]));
            return null;
        }
        throw Failure::transport("The sidecar sent a line that is no message of JSON-RPC: $why");
    }
}
