<?php

declare(strict_types=1);

namespace Pillion\Fallback\Http;

use Pillion\Exception\PillionException;

/**
 * Sends requests with ext-curl, through a multi handle: its waits return to PHP, so that signal handlers run
 * and Pillion enforces the deadlines itself.
 *
 * @internal
 */
final class CurlTransport extends Transport
{
    /** curl's code for a request that would have to be sent again; PHP has no constant for it. */
    private const SEND_FAIL_REWIND = 65;

    private ?\CurlMultiHandle $connections = null;
    /** @var list<\CurlHandle> */
    private array $idle = [];
    private bool $isBusy = false;

    public function __construct(private readonly string $path)
    {
    }

    public static function isPossible(): bool
    {
        return function_exists('curl_multi_init') && defined('CURLOPT_UNIX_SOCKET_PATH');
    }

    public function sendAll(array $exchanges): array
    {
        if ($this->isBusy) {
            // A signal handler or another fiber sends requests while a call waits, so a separate
            // multi handle is used.
            return (new self($this->path))->sendAll($exchanges);
        }
        $this->connections ??= curl_multi_init();
        $this->isBusy = true;
        $waiting = $outcomes = [];
        try {
            foreach ($exchanges as $key => [$request, $deadline]) {
                $exchange = new CurlExchange(array_pop($this->idle) ?? curl_init(), $this->path, $request, $deadline);
                curl_multi_add_handle($this->connections, $exchange->handle);
                $waiting[$key] = $exchange;
            }
            while ($waiting !== []) {
                foreach ($this->finishedExchanges($waiting) as $key => $error) {
                    $outcomes[$key] = $this->outcome($waiting[$key], $error);
                    $this->release($waiting[$key]);
                    unset($waiting[$key]);
                }
                if ($waiting !== []) {
                    // A signal interrupts the wait.
                    curl_multi_select($this->connections, min(array_map(
                        static fn (CurlExchange $exchange): float => $exchange->deadline->nextSlice(),
                        $waiting,
                    )));
                }
            }
        } finally {
            array_map($this->release(...), $waiting);
            $this->isBusy = false;
        }
        return $outcomes;
    }

    /**
     * @param array<int, CurlExchange> $waiting
     *
     * @return array<int, int|PillionException> the outcomes of finished exchanges: curl's result code, or an exception
     */
    private function finishedExchanges(array $waiting): array
    {
        $finished = [];
        $state = curl_multi_exec($this->connections, $running);
        while (($message = curl_multi_info_read($this->connections)) !== false) {
            foreach ($waiting as $key => $exchange) {
                if ($exchange->handle === $message['handle']) {
                    $finished[$key] = $message['result'];
                }
            }
        }
        foreach (array_diff_key($waiting, $finished) as $key => $exchange) {
            try {
                if ($exchange->deadline->hasPassed()) {
                    $finished[$key] = CURLE_OPERATION_TIMEDOUT;
                } elseif ($state !== CURLM_OK || $running === 0) {
                    $finished[$key] = TransportErrors::connectionClosed((string) curl_multi_strerror($state));
                }
            } catch (PillionException $e) {
                $finished[$key] = $e;
            }
        }
        return $finished;
    }

    private function outcome(CurlExchange $exchange, int|PillionException $error): Response|PillionException
    {
        return match (true) {
            $error instanceof PillionException => $error,
            $error === CURLE_OK => $exchange->response(),
            $error === CURLE_OPERATION_TIMEDOUT => TransportErrors::timedOut($exchange->deadline),
            $error === CURLE_COULDNT_CONNECT => TransportErrors::connectFailed($this->path, curl_getinfo($exchange->handle, CURLINFO_OS_ERRNO)),
            $error === CURLE_FILESIZE_EXCEEDED, $exchange->isTooLong => TransportErrors::responseTooLong(),
            in_array($error, [CURLE_GOT_NOTHING, CURLE_RECV_ERROR, CURLE_SEND_ERROR, CURLE_PARTIAL_FILE, self::SEND_FAIL_REWIND], true) =>
                TransportErrors::connectionClosed((string) curl_strerror($error)),
            default => TransportErrors::invalidHttp((string) curl_strerror($error)),
        };
    }

    /** Removes an exchange. For an unfinished exchange this closes the connection, which cancels the call. */
    private function release(CurlExchange $exchange): void
    {
        curl_multi_remove_handle($this->connections, $exchange->handle);
        // Without the reset, the callbacks would keep the bodies in memory.
        curl_reset($exchange->handle);
        $this->idle[] = $exchange->handle;
    }
}
