<?php

declare(strict_types=1);

namespace Pillion\Fallback\Executor;

use Pillion\Exception\TransportException;
use Pillion\Fallback\Failure;
use Pillion\Fallback\Http\Deadline;
use Pillion\Fallback\Http\Response;
use Pillion\Fallback\Http\TransportErrors;
use Pillion\Fallback\Registry\ToolEntries;
use Pillion\Worker\Connection;
use Pillion\Worker\ConnectionLostException;
use Pillion\Worker\MessageEncoder;
use Pillion\Worker\Upgrade;

/**
 * The connection of an executor to the sidecar: JSON-RPC 2.0 messages, one per line. Several executions may
 * use the connection at a time, nested or in fibers, so each execution has its own inbox.
 *
 * @internal
 */
final class ExecutorConnection
{
    private const PROTOCOL = 'pillion-executor';
    /** How long the sidecar may be silent beyond the longest timeout of a call, in seconds. */
    private const MARGIN = 10.0;
    private const MAX_SLICE = 1.0;

    private readonly Connection $connection;
    private readonly float $maxSilence;
    private readonly Definitions $definitions;
    private int $lastId = 0;
    private bool $isClosed = false;
    /** @var array<int, list<\stdClass>> messages by the ID of their execution */
    private array $inboxes = [];

    /**
     * @throws \Pillion\Exception\UnavailableException  when the sidecar is not running, or accepts no more executors
     * @throws \Pillion\Exception\InvalidInputException when the sidecar rejects an option
     * @throws TransportException                       when the response is invalid
     */
    public function __construct(public readonly string $socket, ExecutorOptions $options)
    {
        try {
            $connection = new Connection($socket);
        } catch (ConnectionLostException $e) {
            throw Failure::unavailable(TransportErrors::connectFailed($socket, $e->getCode())->getMessage() . '; start it with `pillion serve`');
        }
        $this->maxSilence = $options->maxTimeout() + self::MARGIN;
        try {
            [$status, , $body] = Upgrade::request($connection, '/api/v1/executors', self::PROTOCOL, "{\"options\":$options->json}", $this->maxSilence);
        } catch (ConnectionLostException $e) {
            throw Failure::unavailable($e->getMessage());
        }
        if ($status !== 101) {
            $reason = Upgrade::reason($status, $body);
            throw match (true) {
                $status === 400 => Failure::invalidInput($reason),
                $status === 404 => Failure::unavailable('The sidecar is older than this library and cannot run its calls'),
                default => Failure::unavailable("The sidecar does not accept the connection: $reason"),
            };
        }
        $this->connection = $connection;
        $this->definitions = new Definitions();
    }

    /** Returns whether the connection can be used: a child process must not use the connection of its parent. */
    public function isOpen(): bool
    {
        if ($this->isClosed || $this->connection->isInherited()) {
            return false;
        }
        $end = Deadline::now() + self::MAX_SLICE;
        try {
            while (Deadline::now() < $end && ($line = $this->connection->readLine(0.0, Response::MAX_BYTES)) !== null) {
                $this->route($line);
            }
        } catch (TransportException) {
            $this->close();
        }
        return !$this->isClosed;
    }

    public function close(): void
    {
        $this->isClosed = true;
        $this->connection->close();
    }

    /**
     * Sends the request to run calls, with the changes of the registry since the previous request.
     *
     * @param array<string, mixed> $params
     *
     * @return int the ID of the execution
     *
     * @throws \Pillion\Exception\InvalidInputException when the request is too large
     * @throws TransportException                       when the connection is lost
     */
    public function request(ToolEntries $entries, array $params): int
    {
        $id = ++$this->lastId;
        $line = MessageEncoder::encode([
            'id' => $id,
            'method' => 'tools/execute',
            'params' => $params + $this->definitions->changes($entries),
        ]);
        if (strlen($line) > Connection::MAX_LINE_LEN) {
            throw Failure::invalidInput(sprintf('The calls and the definitions of their tools have %d bytes; the limit is %d', strlen($line), Connection::MAX_LINE_LEN));
        }
        $this->inboxes[$id] = [];
        $this->connection->send($line);
        $this->definitions->markSent($entries);
        return $id;
    }

    /** Makes the next request send all definitions again, because the sidecar rejected some of them. */
    public function rejectDefinitions(): void
    {
        $this->definitions->reset();
    }

    /**
     * Returns the next message of an execution.
     *
     * @throws \Pillion\Exception\TimeoutException when the sidecar sends nothing for too long
     * @throws TransportException                  when the connection is lost or a message is invalid
     */
    public function next(int $execution): \stdClass
    {
        $end = Deadline::now() + $this->maxSilence;
        while (($message = array_shift($this->inboxes[$execution])) === null) {
            if ($this->isClosed) {
                throw new ConnectionLostException('The sidecar closed the connection');
            }
            $remaining = $end - Deadline::now();
            if ($remaining <= 0) {
                throw Failure::timeout(sprintf('The sidecar did not respond within %.1Fs', $this->maxSilence));
            }
            $line = $this->connection->readLine(min($remaining, self::MAX_SLICE), Response::MAX_BYTES);
            if ($line !== null) {
                $this->route($line);
            }
        }
        return $message;
    }

    /**
     * Sends the response to a request of the sidecar.
     *
     * @param string $result JSON
     *
     * @throws ConnectionLostException also in a child process, which a PHP tool forked
     */
    public function respond(int $id, string $result): void
    {
        if ($this->connection->isInherited()) {
            throw new ConnectionLostException('Only the process that made the call can end it, not its child process');
        }
        $this->connection->send("{\"jsonrpc\":\"2.0\",\"id\":$id,\"result\":$result}\n");
    }

    /** Removes the inbox of an execution. Cancels the execution if it still runs. */
    public function end(int $execution, bool $isRunning): void
    {
        unset($this->inboxes[$execution]);
        if ($isRunning && !$this->isClosed && !$this->connection->isInherited()) {
            try {
                $this->connection->send(MessageEncoder::encode(['method' => 'notifications/cancelled', 'params' => ['requestId' => $execution]]));
            } catch (ConnectionLostException) {
                $this->close();
            }
        }
    }

    /** @throws TransportException when the message is invalid */
    private function route(string $line): void
    {
        $message = Connection::decode($line);
        if (is_array($message)) {
            // Invalid names can only be in the arguments or the result, so these are removed.
            $params = array_diff_key((array) ($message['params'] ?? []), ['arguments' => null, 'result' => null]);
            $message = (object) (['params' => (object) ($params + ['hasInvalidNames' => true])] + $message);
        }
        $execution = isset($message->method) ? $message->params->execution ?? null : $message->id ?? null;
        if (is_int($execution) && isset($this->inboxes[$execution])) {
            $this->inboxes[$execution][] = $message;
        } elseif (isset($message->method, $message->id) && is_int($message->id)) {
            // The execution of the request was cancelled, so the response is empty.
            $this->respond($message->id, '{}');
        }
    }
}
