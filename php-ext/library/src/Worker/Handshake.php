<?php

declare(strict_types=1);

namespace Pillion\Worker;

use Pillion\Exception\AuthorizationException;
use Pillion\Exception\InvalidInputException;
use Pillion\Exception\PillionException;
use Pillion\Exception\TransportException;
use Pillion\Fallback\Failure;

/**
 * The HTTP upgrade request that turns a connection to the sidecar into a worker connection, and the response.
 *
 * @internal
 */
final class Handshake
{
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
        [$status, $headers, $body] = Upgrade::request($connection, '/api/v1/workers', 'pillion-worker', $offer);
        if ($status !== 101) {
            throw self::createRejection($status, Upgrade::readReason($status, $body));
        }
        return $headers['pillion-worker'] ?? '';
    }

    private static function createRejection(int $status, string $reason): PillionException
    {
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
