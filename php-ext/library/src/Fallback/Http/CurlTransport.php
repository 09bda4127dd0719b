<?php

declare(strict_types=1);

namespace Pillion\Fallback\Http;

use Pillion\Exception\PillionException;

/**
 * Sends requests with ext-curl. A multi handle is used, because its waits return to PHP regularly,
 * so that signal handlers can run and Pillion can enforce the deadlines.
 *
 * @internal
 */
final class CurlTransport extends Transport
{
    /** curl's code for a request that curl cannot send again; PHP does not define this constant. */
    private const CURLE_SEND_FAIL_REWIND = 65;

    private ?\CurlMultiHandle $multiHandle = null;
    /** @var list<\CurlHandle> */
    private array $idleHandles = [];
    private bool $isBusy = false;

    public function __construct(private readonly string $socketPath)
    {
    }

    public static function isSupported(): bool
    {
        return function_exists('curl_multi_init') && defined('CURLOPT_UNIX_SOCKET_PATH');
    }

    public function sendAll(array $exchanges): array
    {
        if ($this->isBusy) {
            // A signal handler or another fiber sends a request while a call waits. The request
            // needs another multi handle, because the waiting call uses this one.
            return (new self($this->socketPath))->sendAll($exchanges);
        }
        $this->multiHandle ??= curl_multi_init();
        $this->isBusy = true;
        $pendingExchanges = $outcomes = [];
        try {
            foreach ($exchanges as $key => [$request, $deadline]) {
                $exchange = new CurlExchange(array_pop($this->idleHandles) ?? curl_init(), $this->socketPath, $request, $deadline);
                curl_multi_add_handle($this->multiHandle, $exchange->handle);
                $pendingExchanges[$key] = $exchange;
            }
            while ($pendingExchanges !== []) {
                foreach ($this->collectResults($pendingExchanges) as $key => $result) {
                    $outcomes[$key] = $this->toOutcome($pendingExchanges[$key], $result);
                    $this->release($pendingExchanges[$key]);
                    unset($pendingExchanges[$key]);
                }
                if ($pendingExchanges !== []) {
                    // The return value is ignored: it also indicates an error when a signal
                    // interrupts the wait.
                    curl_multi_select($this->multiHandle, min(array_map(
                        static fn (CurlExchange $exchange): float => $exchange->deadline->nextWaitSeconds(),
                        $pendingExchanges,
                    )));
                }
            }
        } finally {
            array_map($this->release(...), $pendingExchanges);
            $this->isBusy = false;
        }
        return $outcomes;
    }

    /**
     * @param array<int, CurlExchange> $pendingExchanges
     *
     * @return array<int, int|PillionException> the results of finished exchanges: curl's result code, or an exception
     */
    private function collectResults(array $pendingExchanges): array
    {
        $results = [];
        $multiCode = curl_multi_exec($this->multiHandle, $runningCount);
        while (($message = curl_multi_info_read($this->multiHandle)) !== false) {
            foreach ($pendingExchanges as $key => $exchange) {
                if ($exchange->handle === $message['handle']) {
                    $results[$key] = $message['result'];
                }
            }
        }
        foreach (array_diff_key($pendingExchanges, $results) as $key => $exchange) {
            try {
                if ($exchange->deadline->hasPassed()) {
                    $results[$key] = CURLE_OPERATION_TIMEDOUT;
                } elseif ($multiCode !== CURLM_OK || $runningCount === 0) {
                    $results[$key] = TransportErrors::connectionClosed((string) curl_multi_strerror($multiCode));
                }
            } catch (PillionException $exception) {
                $results[$key] = $exception;
            }
        }
        return $results;
    }

    private function toOutcome(CurlExchange $exchange, int|PillionException $result): Response|PillionException
    {
        return match (true) {
            $result instanceof PillionException => $result,
            $result === CURLE_OK => $exchange->response(),
            $result === CURLE_OPERATION_TIMEDOUT => TransportErrors::timeout($exchange->deadline),
            $result === CURLE_COULDNT_CONNECT => TransportErrors::connectFailure($this->socketPath, curl_getinfo($exchange->handle, CURLINFO_OS_ERRNO)),
            $result === CURLE_FILESIZE_EXCEEDED, $exchange->isTooLong => TransportErrors::responseTooLong(),
            in_array($result, [CURLE_GOT_NOTHING, CURLE_RECV_ERROR, CURLE_SEND_ERROR, CURLE_PARTIAL_FILE, self::CURLE_SEND_FAIL_REWIND], true) =>
                TransportErrors::connectionClosed((string) curl_strerror($result)),
            default => TransportErrors::invalidHttp((string) curl_strerror($result)),
        };
    }

    /**
     * Removes an exchange. Removing an unfinished exchange closes its connection, which cancels the
     * call.
     */
    private function release(CurlExchange $exchange): void
    {
        curl_multi_remove_handle($this->multiHandle, $exchange->handle);
        // The handle is reset, because its callbacks would otherwise keep the bodies in memory.
        curl_reset($exchange->handle);
        $this->idleHandles[] = $exchange->handle;
    }
}
