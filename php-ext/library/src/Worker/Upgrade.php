<?php

declare(strict_types=1);

namespace Pillion\Worker;

use Pillion\Exception\TransportException;
use Pillion\Fallback\Failure;
use Pillion\Fallback\Http\Deadline;

/**
 * The HTTP request that upgrades a connection to the sidecar to another protocol, and the response.
 *
 * @internal
 */
final class Upgrade
{
    private const RESPONSE_TIMEOUT = 30.0;
    private const MAX_HEAD_LEN = 65_536;
    private const MAX_BODY_LEN = 1_048_576;

    /**
     * @param string $body    JSON
     * @param float  $timeout how long to wait for the response, in seconds
     *
     * @return array{int, array<string, string>, string} the status, the headers by lowercase name, and the body; with
     *                                                   the status 101 the connection uses `$protocol`
     *
     * @throws ConnectionLostException when the sidecar does not respond
     * @throws TransportException      when the response is not valid, or switches to another protocol
     */
    public static function request(Connection $connection, string $path, string $protocol, string $body, float $timeout = self::RESPONSE_TIMEOUT): array
    {
        $request = implode("\r\n", [
            "POST $path HTTP/1.1",
            'Host: pillion',
            'Connection: Upgrade',
            "Upgrade: $protocol",
            'Content-Type: application/json',
            'Content-Length: ' . strlen($body),
            '',
            $body,
        ]);
        try {
            $connection->send($request);
        } catch (ConnectionLostException) {
            // The response is read even if the request could not be sent completely, because a
            // server may reject a request before it has read all of it.
        }
        [$status, $headers] = self::readHead($connection, $timeout);
        if ($status !== 101) {
            return [$status, $headers, self::readBody($connection, $headers)];
        }
        if (strcasecmp($headers['upgrade'] ?? '', $protocol) !== 0) {
            throw Failure::transport("The sidecar switched to a protocol other than $protocol");
        }
        return [$status, $headers, ''];
    }

    /** Returns the reason why the sidecar rejected the upgrade. */
    public static function readReason(int $status, string $body): string
    {
        $problem = json_decode($body, true);
        $detail = is_array($problem) ? $problem['detail'] ?? $problem['title'] ?? null : null;
        return is_string($detail) ? $detail : "HTTP $status";
    }

    /** @return array{int, array<string, string>} the status, and the headers by lowercase name */
    private static function readHead(Connection $connection, float $timeout): array
    {
        $endTime = Deadline::now() + $timeout;
        do {
            $head = $connection->readUntil("\r\n\r\n", max(0.0, $endTime - Deadline::now()), self::MAX_HEAD_LEN);
        } while ($head === null && Deadline::now() < $endTime);
        if ($head === null) {
            throw new ConnectionLostException(sprintf('The sidecar did not respond within %.1Fs', $timeout));
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
}
