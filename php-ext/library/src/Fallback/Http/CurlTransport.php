<?php

declare(strict_types=1);

namespace Pillion\Fallback\Http;

/**
 * With ext-curl. It runs as a multi handle, whose waits come back to PHP, so that signal
 * handlers run and the deadline is ours.
 *
 * @internal
 */
final class CurlTransport implements Transport
{
    /** curl would have to send the request again; PHP has no constant for it. */
    private const SEND_FAIL_REWIND = 65;

    private ?\CurlMultiHandle $connections = null;
    private ?\CurlHandle $handle = null;
    private bool $isBusy = false;

    public function __construct(private readonly string $path)
    {
    }

    public static function isPossible(): bool
    {
        return function_exists('curl_multi_init') && defined('CURLOPT_UNIX_SOCKET_PATH');
    }

    public function send(Request $request, Deadline $deadline): Response
    {
        if ($this->isBusy) {
            // A signal handler, or another fiber, calls while a call waits.
            return (new self($this->path))->send($request, $deadline);
        }
        $this->connections ??= curl_multi_init();
        $this->handle ??= curl_init();
        $received = new \stdClass();
        $received->body = '';
        $received->isTooLong = false;
        curl_setopt_array($this->handle, $this->options($request, $deadline, $received));
        $this->isBusy = true;
        curl_multi_add_handle($this->connections, $this->handle);
        try {
            $error = $this->wait($deadline);
            $status = curl_getinfo($this->handle, CURLINFO_RESPONSE_CODE);
            $errno = curl_getinfo($this->handle, CURLINFO_OS_ERRNO);
        } finally {
            // Of a call that is not done this closes the connection, which cancels it.
            curl_multi_remove_handle($this->connections, $this->handle);
            // The callbacks hold the bodies.
            curl_reset($this->handle);
            $this->isBusy = false;
        }
        return match ($error) {
            CURLE_OK => new Response($status, $received->body),
            CURLE_OPERATION_TIMEDOUT => throw Trouble::time($deadline),
            CURLE_COULDNT_CONNECT => throw Trouble::connecting($this->path, $errno),
            CURLE_FILESIZE_EXCEEDED => throw Trouble::tooLong(),
            CURLE_WRITE_ERROR => throw $received->isTooLong ? Trouble::tooLong() : Trouble::notHttp(curl_strerror($error)),
            CURLE_GOT_NOTHING, CURLE_RECV_ERROR, CURLE_SEND_ERROR, CURLE_PARTIAL_FILE, self::SEND_FAIL_REWIND =>
                throw Trouble::brokenOff(curl_strerror($error)),
            default => throw Trouble::notHttp(curl_strerror($error)),
        };
    }

    /** Runs the transfer to its end; returns curl's code for how it ended. */
    private function wait(Deadline $deadline): int
    {
        while (true) {
            $state = curl_multi_exec($this->connections, $running);
            if ($state !== CURLM_OK) {
                throw Trouble::brokenOff((string) curl_multi_strerror($state));
            }
            if ($running === 0) {
                $ended = curl_multi_info_read($this->connections);
                return $ended === false ? CURLE_RECV_ERROR : $ended['result'];
            }
            if ($deadline->isOver()) {
                return CURLE_OPERATION_TIMEDOUT;
            }
            // A signal ends it early.
            curl_multi_select($this->connections, $deadline->slice());
        }
    }

    /** @return array<int, mixed> */
    private function options(Request $request, Deadline $deadline, \stdClass $received): array
    {
        $options = [
            CURLOPT_UNIX_SOCKET_PATH => $this->path,
            CURLOPT_URL => "http://pillion$request->path",
            CURLOPT_PROXY => '',
            CURLOPT_NOSIGNAL => true,
            CURLOPT_TIMEOUT_MS => self::milliseconds($deadline->seconds),
            CURLOPT_CONNECTTIMEOUT_MS => self::milliseconds($deadline->seconds),
            CURLOPT_HTTP_VERSION => CURL_HTTP_VERSION_1_1,
            CURLOPT_PATH_AS_IS => true,
            CURLOPT_MAXFILESIZE => Response::MOST_BYTES,
            CURLOPT_HTTPHEADER => [...$request->headerLines(), 'expect:'],
            CURLOPT_WRITEFUNCTION => static function ($handle, string $bytes) use ($received): int {
                if (strlen($received->body) + strlen($bytes) > Response::MOST_BYTES) {
                    $received->isTooLong = true;
                    return -1;
                }
                $received->body .= $bytes;
                return strlen($bytes);
            },
        ];
        if ($request->body === null) {
            return $options;
        }
        // Given as a string, curl would send the body again, were the connection to break
        // before the answer. What comes from a function it cannot.
        $sent = 0;
        return $options + [
            CURLOPT_UPLOAD => true,
            CURLOPT_CUSTOMREQUEST => $request->method(),
            CURLOPT_INFILESIZE => strlen($request->body),
            CURLOPT_READFUNCTION => static function ($handle, $file, int $length) use ($request, &$sent): string {
                $bytes = substr($request->body, $sent, $length);
                $sent += strlen($bytes);
                return $bytes;
            },
        ];
    }

    /** Rounded up, and at least 1, since 0 is no limit. */
    private static function milliseconds(float $seconds): int
    {
        return (int) max(1, min(ceil($seconds * 1000), 0x7FFFFFFF));
    }
}
