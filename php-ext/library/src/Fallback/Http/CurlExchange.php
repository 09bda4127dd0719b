<?php

declare(strict_types=1);

namespace Pillion\Fallback\Http;

/**
 * One HTTP request sent with curl, and the response received so far.
 *
 * @internal
 */
final class CurlExchange
{
    private string $body = '';
    public bool $isTooLong = false;

    public function __construct(
        public readonly \CurlHandle $handle,
        string $socketPath,
        Request $request,
        public readonly Deadline $deadline,
    ) {
        $milliseconds = self::toMilliseconds($deadline->seconds);
        curl_setopt_array($handle, [
            CURLOPT_UNIX_SOCKET_PATH => $socketPath,
            CURLOPT_URL => "http://pillion$request->path",
            CURLOPT_PROXY => '',
            CURLOPT_NOSIGNAL => true,
            CURLOPT_TIMEOUT_MS => $milliseconds,
            CURLOPT_CONNECTTIMEOUT_MS => $milliseconds,
            CURLOPT_HTTP_VERSION => CURL_HTTP_VERSION_1_1,
            CURLOPT_PATH_AS_IS => true,
            CURLOPT_NOBODY => $request->method() === 'HEAD',
            CURLOPT_MAXFILESIZE => Response::MAX_BODY_BYTES,
            CURLOPT_HTTPHEADER => [...$request->formatHeaders(), 'expect:'],
            CURLOPT_WRITEFUNCTION => fn (\CurlHandle $handle, string $bytes): int => $this->receive($bytes),
        ] + ($request->body === null ? [] : self::createUploadOptions($request->method(), $request->body)));
    }

    public function response(): Response
    {
        return new Response(curl_getinfo($this->handle, CURLINFO_RESPONSE_CODE), $this->body);
    }

    private function receive(string $bytes): int
    {
        if (strlen($this->body) + strlen($bytes) > Response::MAX_BODY_BYTES) {
            $this->isTooLong = true;
            return -1;
        }
        $this->body .= $bytes;
        return strlen($bytes);
    }

    /**
     * Returns the curl options that send the body with a read function, which curl cannot rewind.
     * curl would send a string body a second time if the connection closed before the response
     * arrived.
     *
     * @return array<int, mixed>
     */
    private static function createUploadOptions(string $method, string $body): array
    {
        $sentBytes = 0;
        return [
            CURLOPT_UPLOAD => true,
            CURLOPT_CUSTOMREQUEST => $method,
            CURLOPT_INFILESIZE => strlen($body),
            CURLOPT_READFUNCTION => static function (\CurlHandle $handle, mixed $ignoredFile, int $length) use ($body, &$sentBytes): string {
                $chunk = substr($body, $sentBytes, $length);
                $sentBytes += strlen($chunk);
                return $chunk;
            },
        ];
    }

    /** Returns a timeout in milliseconds, rounded up and at least 1, because 0 means no limit. */
    private static function toMilliseconds(float $seconds): int
    {
        return (int) max(1, min(ceil($seconds * 1000), 0x7FFFFFFF));
    }
}
