<?php

declare(strict_types=1);

namespace Pillion\Worker;

use Pillion\Exception\AuthorizationException;
use Pillion\Exception\InvalidInputException;
use Pillion\Exception\PillionException;
use Pillion\Exception\TransportException;
use Pillion\Fallback\Failure;
use Pillion\Fallback\Http\Deadline;

/**
 * The HTTP upgrade request that turns a connection to the sidecar into a worker connection, and the response.
 *
 * @internal
 */
final class Handshake
{
    private const RESPONSE_TIMEOUT = 30.0;
    private const MAX_HEAD_LEN = 65_536;
    private const MAX_BODY_LEN = 1_048_576;

    /**
     * @return string the worker ID assigned by the sidecar
     *
     * @throws ConnectionLostException when the sidecar cannot accept another worker now
     * @throws InvalidInputException   when the sidecar rejects the tools
     * @throws AuthorizationException  when this process is not allowed to offer tools
     * @throws TransportException      when the response is not a valid upgrade response
     */
    public static function perform(Connection $connection, string $offer): string
    {
        $request = implode("\r\n", [
            'POST /api/v1/workers HTTP/1.1',
            'Host: pillion',
            'Connection: Upgrade',
            'Upgrade: pillion-worker',
            'Content-Type: application/json',
            'Content-Length: ' . strlen($offer),
            '',
            $offer,
        ]);
        try {
            $connection->send($request);
        } catch (ConnectionLostException) {
            // A server may reject a request before it has read the complete request, so read the response
            // anyway.
        }
        [$status, $headers] = self::readHead($connection);
        if ($status !== 101) {
            throw self::rejection($status, self::readBody($connection, $headers));
        }
        if (strcasecmp($headers['upgrade'] ?? '', 'pillion-worker') !== 0) {
            throw Failure::transport('The sidecar switched to another protocol than pillion-worker');
        }
        return $headers['pillion-worker'] ?? '';
    }

    /** @return array{int, array<string, string>} the status, and the headers by lowercase name */
    private static function readHead(Connection $connection): array
    {
        $end = Deadline::now() + self::RESPONSE_TIMEOUT;
        do {
            $head = $connection->readUntil("\r\n\r\n", max(0.0, $end - Deadline::now()), self::MAX_HEAD_LEN);
        } while ($head === null && Deadline::now() < $end);
        if ($head === null) {
            throw new ConnectionLostException('The sidecar did not respond in time');
        }
        $lines = explode("\r\n", $head);
        if (preg_match('~^HTTP/1\.[01] (\d{3})( |$)~', $lines[0], $matches) !== 1) {
            throw Failure::transport('The process that listens on the socket is not a sidecar: the response is not HTTP');
        }
        $headers = [];
        foreach (array_slice($lines, 1) as $line) {
            [$name, $value] = explode(':', $line, 2) + [1 => ''];
            $headers[strtolower($name)] = trim($value);
        }
        return [(int) $matches[1], $headers];
    }

    /** @param array<string, string> $headers */
    private static function readBody(Connection $connection, array $headers): string
    {
        $length = $headers['content-length'] ?? '';
        if (!ctype_digit($length) || strlen($length) > 7 || (int) $length > self::MAX_BODY_LEN) {
            return '';
        }
        try {
            return $connection->readBytes((int) $length, self::RESPONSE_TIMEOUT) ?? '';
        } catch (ConnectionLostException) {
            return '';
        }
    }

    private static function rejection(int $status, string $body): PillionException
    {
        $problem = json_decode($body, true);
        $detail = is_array($problem) ? $problem['detail'] ?? $problem['title'] ?? null : null;
        $reason = is_string($detail) ? $detail : "HTTP $status";
        if ($status === 404 || $status === 405) {
            return Failure::transport("The sidecar does not accept workers: $reason", $status);
        }
        if ($status === 401 || $status === 403) {
            $exception = new AuthorizationException("The sidecar does not accept tools from this process: $reason");
            $exception->errorCode = 'denied';
            $exception->httpStatus = $status;
            return $exception;
        }
        if ($status === 429 || $status >= 500) {
            return new ConnectionLostException("The sidecar cannot accept another worker now: $reason");
        }
        if ($status >= 400) {
            return Failure::invalidInput("The sidecar rejected the tools: $reason");
        }
        return Failure::transport("The sidecar responded with HTTP $status instead of switching protocols", $status);
    }
}
